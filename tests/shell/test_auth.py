"""`hermes auth`, `hermes models` and `hermes usage` with a real daemon and an endpoint of the test."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_shell import Shell
from tests.support.recording_endpoint import Endpoint, error, recording_endpoint, text

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        yield user


@pytest.fixture
def endpoint(shell: Shell) -> Iterator[Endpoint]:
    with recording_endpoint(text("fine")) as made:
        made.key = KEY
        model = {"name": "m", "context_length": 64_000, "input_price": 1.0, "output_price": 2.0, "efforts": ["low"]}
        home = Path(shell.env["HERMES_HOME"])
        home.mkdir(parents=True, exist_ok=True)
        config = json.loads(made.config("lab", "m", models=[model, "n"], api_key_env="LAB_KEY"))
        (home / "config.yaml").write_text(json.dumps(config))
        yield made


def everything(shell: Shell) -> str:
    """All that the daemon left on disk but .env."""
    home = Path(shell.env["HERMES_HOME"])
    files = [path for path in home.rglob("*") if path.is_file() and path.name != ".env"]
    return "".join(path.read_bytes().decode("latin-1") for path in files)


def test_a_key_goes_from_standard_input_into_env_and_is_tried_and_taken_out(shell: Shell, endpoint: Endpoint) -> None:
    path = Path(shell.env["HERMES_HOME"], ".env")
    assert "missing" in shell.run("auth").stdout
    done = shell.run("auth", "set", "lab", stdin=f"{KEY}\n")
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == f"LAB_KEY={KEY}\n"
    rows = json.loads(shell.run("auth", "list", "--json").stdout)
    assert {"provider": "lab", "source": "LAB_KEY", "kind": "variable", "state": "set", "note": "in .env"} in rows
    tested = shell.run("auth", "test", "lab")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "lists 2 models" in tested.stdout

    shell.run("auth", "set", "lab", stdin="sk-another-secret-987654321")
    refused = shell.run("auth", "test", "lab", "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)[0]["kind"] == "auth"
    assert "sk-another" not in refused.stdout  # the endpoint had repeated it

    assert shell.run("auth", "set", "lab", "--remove").returncode == 0
    assert path.read_text() == ""
    assert KEY not in everything(shell)
    assert "sk-another" not in everything(shell)


def test_a_key_on_the_command_line_is_refused(shell: Shell, endpoint: Endpoint) -> None:
    refused = shell.run("auth", "set", "lab", KEY)
    assert refused.returncode == 2
    empty = shell.run("auth", "set", "lab", stdin="\n")
    assert (empty.returncode, "no key was given" in empty.stderr) == (2, True)


def test_an_unknown_provider_is_named_with_those_there_are(shell: Shell, endpoint: Endpoint) -> None:
    refused = shell.run("auth", "set", "nowhere", stdin=KEY)
    assert refused.returncode != 0
    assert "There is no provider 'nowhere'" in refused.stderr
    assert "lab" in refused.stderr
    assert "nowhere" in shell.run("auth", "test", "nowhere").stderr


def test_a_provider_without_a_place_for_its_key_gets_one_in_its_settings(shell: Shell, endpoint: Endpoint) -> None:
    assert shell.run("config", "set", "providers.own.base_url", endpoint.base_url).returncode == 0
    done = shell.run("auth", "set", "own", stdin=KEY)
    assert done.returncode == 0, done.stderr
    assert shell.run("config", "get", "providers.own.api_key_env").stdout == "OWN_API_KEY\n"
    assert shell.run("auth", "test", "own").returncode == 0


def test_models_show_window_abilities_efforts_and_prices(shell: Shell, endpoint: Endpoint) -> None:
    table = [line.removeprefix("*").split() for line in shell.run("models").stdout.splitlines()[1:] if line.strip()]
    lines = {row[0]: row for row in table}
    assert lines["lab/m"][:6] == ["lab/m", "64k", "?", "tools", "low", "1/2"]
    assert lines["lab/n"][1:5] == ["128k", "?", "tools", "?"]


def test_usage_shows_models_tasks_and_what_of_the_cost_is_unknown(shell: Shell, endpoint: Endpoint) -> None:
    shell.run("auth", "set", "lab", stdin=KEY)
    for model in ("lab/m", "lab/n"):
        done = shell.run("chat", "-q", "hello", "--model", model)
        assert done.returncode == 0, done.stderr
    lines = shell.run("usage").stdout.splitlines()
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in lines[1:4]}
    assert rows["model", "lab/m"] == ["1", "100", "0", "10", "0", "$0.0001"]
    assert rows["model", "lab/n"] == ["1", "100", "0", "10", "0", "?"]
    assert rows["task", "main"] == ["2", "200", "0", "20", "0", "$0.0001+"]
    found = json.loads(shell.run("usage", "--json").stdout)
    assert found["usage"]["costPartial"] is True
    assert "cost" not in next(row for row in found["byModel"] if row["name"] == "lab/n")["usage"]


def test_a_key_out_of_a_file_is_taken_out_of_what_an_endpoint_repeats(shell: Shell, endpoint: Endpoint) -> None:
    """It is read with the first call, after the daemon has made its redactor."""
    path = Path(shell.env["HERMES_HOME"], "lab.key")
    path.write_text("plain-words-nobody-would-guess")
    path.chmod(0o600)
    assert shell.run("config", "set", "providers.lab.api_key_env", f"file:{path}").returncode == 0
    endpoint.answers = [error(401, {"error": {"message": f"wrong key {path.read_text()}"}})]
    done = shell.run("chat", "-q", "hello")
    assert done.returncode == 1
    assert "wrong key" in done.stderr
    assert "nobody-would-guess" not in done.stdout + done.stderr
    path.unlink()
    assert "nobody-would-guess" not in everything(shell)
