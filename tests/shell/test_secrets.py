"""Credentials, wherever they come from, end up nowhere: not in the database, the logs, the wire, or what is printed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_shell import Shell
from tests.support.recording_endpoint import Endpoint, call, calls, error, recording_endpoint, text

# Values without any vendor's prefix: only knowing them finds them.
IN_ENV_FILE = "quiet-Harbour-4711-lantern"
IN_ENVIRONMENT = "brave-Meadow-9182-copper"
OF_A_PRESET = "amber-Walnut-3345-ribbon"
IN_A_HEADER = "silver-Thistle-6027-anchor"
IN_A_URL = "violet-Pebble-5520-saddle"
OF_A_VENDOR = "sk-proj-" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2"
ALL = (IN_ENV_FILE, IN_ENVIRONMENT, OF_A_PRESET, IN_A_HEADER, IN_A_URL, OF_A_VENDOR)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as made:
        yield made


def configure(shell: Shell, endpoint: Endpoint) -> None:
    home = Path(shell.env["HERMES_HOME"])
    home.mkdir(mode=0o700)
    (home / ".env").touch(0o600)
    (home / ".env").write_text(f"LAB_KEY={IN_ENV_FILE}\nSUDO_PASSWORD={IN_ENV_FILE}\nTEAM={IN_A_HEADER}\n")
    shell.env |= {"OTHER_KEY": IN_ENVIRONMENT, "OPENROUTER_API_KEY": OF_A_PRESET}
    config = {
        "model": {"default": "lab/m"},
        "logging": {"level": "DEBUG"},
        "agent": {"api_max_retries": 0},
        "providers": {
            "lab": {
                "base_url": endpoint.base_url,
                "api_key_env": "LAB_KEY",
                "models": ["m"],
                "headers": {"x-team": "${TEAM}"},
            },
            "other": {
                "base_url": f"{endpoint.base_url}?key={IN_A_URL}",
                "api_key_env": "OTHER_KEY",
                "models": ["m"],
                "headers": {"x-api-key": IN_A_HEADER},
            },
        },
    }
    (home / "config.yaml").write_text(json.dumps(config))


def leaks(shell: Shell, *printed: str) -> list[str]:
    """(secret, place) for every value that is where it must not be."""
    home = Path(shell.env["HERMES_HOME"])
    places = {name: text.encode() for name, text in zip(("out", "err", "more"), printed, strict=False)}
    for folder, _, names in os.walk(home):
        for name in names:
            if name not in (".env", "config.yaml"):
                places[name] = Path(folder, name).read_bytes()
    assert "state.db" in places
    assert "daemon.log" in places
    return [f"{secret} in {place}" for secret in ALL for place, data in places.items() if secret.encode() in data]


def test_the_key_reaches_the_endpoint_and_nothing_else(shell: Shell) -> None:
    with recording_endpoint(text("fine")) as endpoint:
        configure(shell, endpoint)
        done = shell.run("chat", "--json", "-q", "hi")
        assert done.returncode == 0, done.stderr
        assert endpoint.headers[0]["authorization"] == f"Bearer {IN_ENV_FILE}"
        assert endpoint.headers[0]["x-team"] == IN_A_HEADER
        assert leaks(shell, done.stdout, done.stderr) == []


def test_what_tools_read_and_are_told_is_masked_on_its_way(shell: Shell) -> None:
    for name, value in zip("abcdef", ALL, strict=True):
        (shell.work / name).write_text(f"first\nsecond {value} end\n")
    commands = [f"echo {value} | tee copy-{n}" for n, value in enumerate(ALL)]
    made = [call("read_file", {"path": name}, f"r{name}") for name in "abcdef"]
    made += [call("terminal", {"command": command}, f"t{n}") for n, command in enumerate(commands)]
    made.append(call("search_files", {"pattern": "second", "path": "."}, "s"))
    made.append(call("write_file", {"path": "new.txt", "content": "\n".join(ALL)}, "w"))
    with recording_endpoint(calls(*made), text("seen")) as endpoint:
        configure(shell, endpoint)
        done = shell.run("chat", "--json", "--yolo", "-q", "look")
        assert done.returncode == 0, done.stderr
        assert leaks(shell, done.stdout, done.stderr) == []
        told = "\n".join(endpoint.results())
        assert [value for value in ALL if value in told] == []
        # The commands themselves were run as they were written.
        assert (shell.work / "copy-0").read_text().strip() == IN_ENV_FILE
        assert (shell.work / "new.txt").read_text().splitlines() == list(ALL)


@pytest.mark.parametrize("model", ["lab/m", "other/m"])
def test_an_error_that_repeats_the_key_is_told_without_it(shell: Shell, model: str) -> None:
    body = {"error": {"message": f"bad key, one of {' or '.join(ALL)}", "type": "authentication_error"}}
    with recording_endpoint(error(401, body)) as endpoint:
        configure(shell, endpoint)
        done = shell.run("chat", "--json", "-q", "hi", "--model", model)
        assert done.returncode == 1
        assert "answered 401" in done.stderr
        assert leaks(shell, done.stdout, done.stderr) == []


def test_a_failing_address_is_told_without_its_key(shell: Shell) -> None:
    with recording_endpoint(error(500, "boom", content_type="text/plain")) as endpoint:
        configure(shell, endpoint)
        done = shell.run("chat", "-q", "hi", "--model", "other/m")
        assert "answered 500" in done.stderr
        assert leaks(shell, done.stdout, done.stderr) == []


def test_commands_that_show_the_configuration_show_no_value(shell: Shell) -> None:
    with recording_endpoint(text("fine")) as endpoint:
        configure(shell, endpoint)
        shell.run("chat", "-q", "hi")
        printed = []
        for words in (
            ("config", "get"),
            ("config", "get", "providers"),
            ("models", "--probe"),
            ("doctor",),
            ("daemon", "status", "--json"),
            ("daemon", "logs"),
            ("config", "validate"),
        ):
            done = shell.run(*words)
            printed.append(done.stdout + done.stderr)
        shown = "\n".join(printed)
        kept = [value for value in ALL if value in shown]
        # What stands in config.yaml itself is the user's to see there; what comes from .env or the environment is not.
        assert [value for value in kept if value not in (IN_A_URL, IN_A_HEADER)] == []
