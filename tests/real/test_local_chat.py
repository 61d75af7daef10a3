"""Without a key: the embedded model fetched and asked through `hermes`, as on a fresh machine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_daemon.core.ports import Unavailable
from hermes_daemon.providers.pull import pull
from tests.support.client_tmux import Desk, absent, desk
from tests.support.local_shell import wait_for

pytestmark = pytest.mark.real

NOTICE = "local/smollm2 answered, a tiny model on this machine"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's file; HERMES_TEST_CACHE keeps it from run to run."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the engine is not installed (pip install 'hermes-daemon[local]')")
    cache = os.environ.get("HERMES_TEST_CACHE")
    folder = Path(cache) if cache else tmp_path_factory.mktemp("cache")
    try:
        return Path(pull("smollm2", str(folder / "models"), lambda line: None))
    except Unavailable as error:
        pytest.skip(f"the model cannot be fetched here: {error}")


@pytest.fixture
def here(model: Path) -> Iterator[Desk]:
    with desk() as made:
        models = Path(made.home, "models")
        models.mkdir()
        shutil.copy(model, models / model.name)
        yield made


def children(here: Desk) -> list[int]:
    """The engine processes of this home's daemon."""
    daemon = here.daemon_pid()
    found = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    return [int(pid) for pid in found if b"local_child.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_question_a_follow_up_and_one_line_about_who_answered(here: Desk) -> None:
    first = here.hermes("chat", "-q", "What is the capital of France?")
    assert first.returncode == 0, first.stderr
    assert any(letter.isalpha() for letter in first.stdout)
    assert first.stderr.count(NOTICE) == 1
    second = here.hermes("chat", "--continue", "-q", "And of Italy?")
    assert (second.returncode, second.stderr) == (0, "")
    shown = here.hermes(
        "sessions", "export", json.loads(here.hermes("sessions", "list", "--json").stdout)[0]["sessionId"]
    )
    assert "capital of France?" in shown.stdout
    assert "And of Italy?" in shown.stdout


def test_a_killed_engine_is_replaced_and_an_idle_one_is_stopped(here: Desk) -> None:
    Path(here.home, "config.yaml").write_text("local: {idle_s: 600}\nmodel: {max_output: 20}\n")
    assert here.hermes("chat", "-q", "Say hello.").stdout
    [pid] = children(here)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: pid not in children(here))
    assert here.hermes("chat", "-q", "Say hello.").stdout
    [other] = children(here)
    assert other != pid
    Path(here.home, "config.yaml").write_text("local: {idle_s: 0.1}\nmodel: {max_output: 20}\n")
    here.hermes("chat", "-q", "Say hello.")
    wait_for(lambda: not children(here))


def test_a_conversation_beyond_the_window_still_answers_and_says_what_was_left_out(here: Desk) -> None:
    Path(here.home, "config.yaml").write_text("local: {context_length: 1024}\nmodel: {max_output: 12}\n")
    notes = " ".join(f"Note {n}: the ship carried {n} barrels of oil." for n in range(40))
    assert here.hermes("chat", "-q", notes).stdout
    second = here.hermes("chat", "--continue", "-q", notes)
    assert second.stdout
    assert (
        "The conversation is longer than local/smollm2 can read; its first 2 messages were left out." in second.stderr
    )
    alone = here.hermes("chat", "-q", "word " * 2000)
    assert alone.returncode == 1
    assert "longer than the local model's window of 1024 tokens (local.context_length)" in alone.stderr


def test_a_missing_file_says_how_to_fetch_it(here: Desk) -> None:
    os.unlink(os.path.join(here.home, "models", "smollm2.gguf"))
    done = here.hermes("chat", "-q", "hi")
    assert done.returncode == 1
    assert "The local model smollm2 is not in " in done.stderr
    assert "`hermes models pull smollm2` fetches it." in done.stderr


@pytest.mark.skipif(bool(absent()), reason=absent())
def test_the_interactive_client_offers_to_fetch_it(here: Desk) -> None:
    path = os.path.join(here.home, "models", "smollm2.gguf")
    aside = os.path.join(here.temporary, "smollm2.gguf")
    shutil.move(path, aside)
    pane = here.chat()
    pane.wait("/pull fetches local/smollm2")
    pane.enter(f"/pull file:{aside}")
    pane.wait(lambda shown: "is here" in shown.split("fetching")[-1])
    pane.enter("What is the capital of France?")
    pane.wait(NOTICE)
    pane.enter("/quit")
    pane.wait("[left with 0]")
