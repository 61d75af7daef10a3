"""The main job: a coding turn in a small git repository, the model scripted by aimock, through `hermes chat`."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.aimock import Aimock, aimock
from tests.support.client_tmux import Desk, absent, desk
from tests.support.llmock import llmock
from tests.support.recording_endpoint import results_of

pytestmark = pytest.mark.real

BROKEN = "def total(prices):\n    return sum(prices) - 1\n"
TEST = """\
import unittest
from prices import total


class Total(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
"""
RUN = "python3 -m unittest -q"
PATCH = {"path": "prices.py", "old_string": "sum(prices) - 1", "new_string": "sum(prices)"}


def calls(*made: tuple[str, Any], **more: Any) -> dict[str, Any]:
    texts = [(name, args if isinstance(args, str) else json.dumps(args)) for name, args in made]
    return {"toolCalls": [{"name": name, "arguments": text} for name, text in texts], **more}


def rounds(word: str, *answers: dict[str, Any]) -> list[dict[str, Any]]:
    """One answer for each round of the turn that `word` begins."""
    return [
        {"match": {"userMessage": word, "turnIndex": number}, "response": answer}
        for number, answer in enumerate(answers)
    ]


CODING = rounds(
    "mend it",
    calls(("read_file", {"path": "prices.py"}), ("search_files", {"pattern": "total", "path": "."})),
    calls(("patch", PATCH)),
    calls(("terminal", {"command": RUN})),
    {
        "content": "The **total** was one too small; the test passes now.",
        "usage": {"prompt_tokens": 1200, "completion_tokens": 40, "total_tokens": 1240},
    },
)


def git(folder: str | Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@contextmanager
def at_work(fixtures: list[dict[str, Any]], folder: Path, settings: str = "", **provider: Any) -> Iterator[Any]:
    """(desk, server): a repository with a failing test, and aimock as the default model."""
    with aimock(fixtures, folder) as server, desk() as here:
        work = Path(here.work)
        (work / "prices.py").write_text(BROKEN)
        (work / "test_prices.py").write_text(TEST)
        (work / ".gitignore").write_text("__pycache__/\n")
        git(work, "init", "-q")
        git(work, "add", ".")
        git(work, "commit", "-qm", "begin")
        point_at(here, server.base_url, settings, **provider)
        yield here, server


def point_at(here: Desk, base_url: str, settings: str = "", **provider: Any) -> None:
    entry = {"base_url": base_url, "models": [{"name": "m", "input_price": 2.0, "output_price": 10.0}], **provider}
    text = f"model: {{default: lab/m}}\nproviders: {json.dumps({'lab': entry})}\n{settings}"
    Path(here.home, "config.yaml").write_text(text)


def asked(server: Aimock, request: int = -1) -> list[dict[str, Any]]:
    """The messages of one request that the server got."""
    bodies = [row["body"] for row in server.journal() if row["path"].endswith("/chat/completions")]
    messages: list[dict[str, Any]] = bodies[request]["messages"]
    return messages


def results(server: Aimock) -> list[str]:
    return results_of(asked(server))


def test_a_coding_turn_reads_edits_and_runs(tmp_path: Path) -> None:
    with at_work(CODING, tmp_path) as (here, server):
        done = here.hermes("chat", "-q", "mend it", "--yolo")
        assert (done.returncode, done.stdout) == (0, "The **total** was one too small; the test passes now.\n"), done
        assert "-    return sum(prices) - 1\n+    return sum(prices)\n" in git(here.work, "diff")
        assert git(here.work, "status", "--porcelain") == " M prices.py\n"
        said = results(server)
        assert "sum(prices) - 1" in said[0]
        assert "test_prices.py" in said[1]
        assert "OK" in said[3]
        for step in (
            "[read_file]",
            "[search_files]",
            "[patch]",
            "[modified] prices.py (+1 -1)",
            f"[terminal] Run `{RUN}`",
        ):
            assert step in done.stderr
        # The two first calls were answered together, in the model's order.
        assert [row["role"] for row in asked(server, 1)][1:] == ["user", "assistant", "tool", "tool"]


def test_what_it_cost_is_told(tmp_path: Path) -> None:
    with at_work(CODING[-1:], tmp_path) as (here, _):
        assert here.hermes("chat", "-q", "mend it").returncode == 0
        [row] = json.loads(here.hermes("sessions", "list", "--json").stdout)
        assert row["usage"]["inputTokens"] == 1200
        assert row["usage"]["cost"] == pytest.approx(0.0028)
        assert row["occupancyPct"] > 0
        shown = here.hermes("sessions", "show", row["sessionId"]).stdout
        assert "tokens   1,200 in, 40 out, $0.0028; context 1 %" in shown


def test_malformed_and_unknown_calls_come_back_with_the_path_and_are_mended(tmp_path: Path) -> None:
    fixtures = rounds(
        "mend it",
        calls(("patch", {**PATCH, "path": 7, "replace_all": "perhaps"}), ("read_fil", {"path": "prices.py"})),
        calls(("terminal", {})),
        calls(("read_file", {"path": "prices.py"})),
        {"content": "Seen."},
    )
    with at_work(fixtures, tmp_path) as (here, server):
        done = here.hermes("chat", "-q", "mend it", "--yolo")
        assert (done.returncode, done.stdout) == (0, "Seen.\n"), done
        said = results(server)
        assert "$.replace_all" in said[0]
        assert "there is no tool 'read_fil' in this session; there are:" in said[1]
        assert "$.command" in said[2]
        assert "sum(prices) - 1" in said[3]


def test_a_call_cut_by_the_output_limit_is_not_run(tmp_path: Path) -> None:
    fixtures = rounds(
        "mend it",
        calls(("terminal", '{"command": "touch cut-off'), finishReason="length"),
        {"content": "Shorter next time."},
    )
    with at_work(fixtures, tmp_path) as (here, server):
        done = here.hermes("chat", "-q", "mend it", "--yolo")
        assert done.returncode == 0, done
        assert "cut off" in results(server)[0]
        assert not os.path.exists(os.path.join(here.work, "cut-off"))


def test_without_a_terminal_what_must_be_asked_is_not_run(tmp_path: Path) -> None:
    with at_work(CODING, tmp_path) as (here, server):
        done = here.hermes("chat", "-q", "mend it")
        assert done.returncode == 0
        assert "(denied: nobody is here to ask; --yolo or approvals.allow in config.yaml let it run)" in done.stderr
        assert git(here.work, "status", "--porcelain") == ""
        assert "Nobody is there who could allow this" in results(server)[2]


def test_rules_of_the_configuration_let_a_one_shot_work(tmp_path: Path) -> None:
    rules = 'approvals: {allow: ["patch:prices.py", "terminal:python3 -m unittest*"]}\n'
    with at_work(CODING, tmp_path, rules) as (here, _):
        done = here.hermes("chat", "-q", "mend it")
        assert (done.returncode, "denied" in done.stderr) == (0, False), done
        assert git(here.work, "status", "--porcelain") == " M prices.py\n"


@pytest.mark.skipif(bool(absent()), reason=absent())
def test_on_a_terminal_every_step_is_asked_and_shown(tmp_path: Path) -> None:
    with at_work(CODING, tmp_path) as (here, _):
        pane = here.chat()
        pane.enter("mend it")
        pane.wait("1 once")
        assert "-    return sum(prices) - 1" in pane.screen() or "sum(prices) - 1" in pane.screen()
        pane.type("1")
        pane.wait(lambda shown: RUN in shown and "1 once" in shown.split("allowed once by you")[-1])
        pane.type("1")
        shown = pane.wait(lambda text: "the test passes now" in text and "idle" in text)
        assert "The total was one too small" in shown
        assert "OK" in shown
        assert git(here.work, "status", "--porcelain") == " M prices.py\n"
        pane.wait("context ", history=False)
        pane.enter("/status")
        assert re.search(r"tokens +[\d,]+ in, [\d,]+ out, \$0\.\d{4}", pane.wait("pid "))


@pytest.mark.skipif(bool(absent()), reason=absent())
def test_a_denial_and_its_reason_reach_the_model(tmp_path: Path) -> None:
    fixtures = rounds("mend it", calls(("patch", PATCH)), {"content": "As you wish."})
    with at_work(fixtures, tmp_path) as (here, server):
        pane = here.chat()
        pane.enter("mend it")
        pane.wait("4 deny")
        pane.type("4")
        pane.wait("Why not?")
        pane.enter("prices are right")
        pane.wait(lambda text: "As you wish." in text and "idle" in text)
        assert "The user denied this call. They said: prices are right. Do not" in results(server)[0]
        assert git(here.work, "status", "--porcelain") == ""


@pytest.mark.skipif(bool(absent()), reason=absent())
def test_a_question_nobody_answers_is_no_consent(tmp_path: Path) -> None:
    fixtures = rounds("mend it", calls(("patch", PATCH)), {"content": "Nobody answered."})
    with at_work(fixtures, tmp_path, "approvals: {timeout: 1}\n") as (here, server):
        pane = here.chat()
        pane.enter("mend it")
        shown = pane.wait(lambda text: "Nobody answered." in text and "idle" in text)
        assert "Patch prices.py: not answered in time" in shown
        assert "Nobody answered the permission request in time. That is not a yes." in results(server)[0]
        assert git(here.work, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        ({"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1}, "slow down"),
        ({"error": {"message": "boom", "type": "server_error"}, "status": 503}, "boom"),
        ({"content": "a longer answer that is cut in the middle"}, "ended its answer before it was finished"),
    ],
)
def test_passing_trouble_is_told_and_outlived(tmp_path: Path, first: dict[str, Any], sentence: str) -> None:
    faults = {} if "error" in first else {"chunkSize": 4, "truncateAfterChunks": 3}
    fixtures = [
        {"match": {"userMessage": "hello", "sequenceIndex": 0}, "response": first, **faults},
        {"match": {"userMessage": "hello"}, "response": {"content": "Hello again."}},
    ]
    with at_work(fixtures, tmp_path) as (here, server):
        done = here.hermes("chat", "-q", "hello")
        assert done.returncode == 0, done
        assert done.stdout.endswith("Hello again.\n")
        assert "trying again in " in done.stderr
        if not faults:
            assert f"{server.base_url}/chat/completions answered {first['status']}: {sentence}" in done.stderr


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("dropRate", "answered 500"),
        ("rateLimitRate", "answered 429"),
        ("disconnectRate", "the connection broke off"),
        ("malformedRate", "malformed"),
    ],
)
def test_lasting_trouble_ends_the_turn_with_a_sentence(tmp_path: Path, fault: str, sentence: str) -> None:
    fixtures = [{"match": {"userMessage": "hello"}, "response": {"content": "never said"}}]
    with at_work(fixtures, tmp_path, "agent: {api_max_retries: 1}\n") as (here, server):
        server.chaos(**{fault: 1.0})
        done = here.hermes("chat", "-q", "hello")
        assert (done.returncode, done.stdout) == (1, "")
        last = done.stderr.splitlines()[-1]
        assert last.startswith("hermes: the turn failed: ")
        assert server.url in last
        assert sentence in last
        server.chaos()
        assert here.hermes("chat", "-q", "hello", "--continue").stdout == "never said\n"


def test_a_refused_key_names_the_variable_and_never_the_value(tmp_path: Path) -> None:
    words = {"message": "Incorrect API key provided: opensesame-4711", "type": "authentication_error"}
    fixtures = [{"match": {"userMessage": "hello"}, "response": {"error": words, "status": 401}}]
    with at_work(fixtures, tmp_path, api_key_env="LAB_KEY") as (here, _):
        path = Path(here.home, ".env")
        path.touch(0o600)
        path.write_text("LAB_KEY=opensesame-4711\n")
        done = here.hermes("chat", "-q", "hello")
        assert done.returncode == 1
        assert done.stderr.startswith("hermes: the turn failed: ")
        assert "answered 401" in done.stderr
        assert "Check the key in LAB_KEY." in done.stderr
        assert "opensesame" not in done.stderr


def test_llmock_has_nothing_to_say_against_the_whole_daemon() -> None:
    with llmock() as server, desk() as here:
        point_at(here, server.base_url, api_key_env="LAB_KEY")
        here.environ["LAB_KEY"] = "test-key"
        server.reset()
        server.order(
            {"type": "fail", "status": 503, "times": 1},
            {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2},
            {"type": "reply", "text": "this is what will be cut off"},
            {"type": "reply", "tool_calls": [{"name": "terminal", "arguments": {"command": "echo from-the-tool"}}]},
            {"type": "reply", "text": "all done"},
        )
        done = here.hermes("chat", "-q", "go", "--yolo")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all done"), done
        assert done.stderr.count("trying again in ") == 2
        assert server.findings() == []
        sent = server.requests()[-1]["body"]["messages"]
        assert "from-the-tool" in sent[-1]["content"]
