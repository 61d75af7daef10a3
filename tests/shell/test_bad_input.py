"""What people get wrong, through the `hermes` command and a real daemon: a sentence with what to do, an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_shell import Shell

ECHO = ("--model", "scripted/echo")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as made:
        yield made


def configure(shell: Shell, text: str) -> Path:
    home = Path(shell.env["HERMES_HOME"])
    home.mkdir(mode=0o700, exist_ok=True)
    path = home / "config.yaml"
    path.write_text(text)
    return path


def closed(shell: Shell, redirections: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command under a shell that closes descriptors first."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "hermes_shell", *words]
    return subprocess.run(command, cwd=shell.work, env=shell.env, capture_output=True, text=True, timeout=60)


def test_a_config_that_breaks_while_the_daemon_runs_is_told_and_the_turn_runs(shell: Shell) -> None:
    configure(shell, "model: {default: scripted/echo}\n")
    assert shell.run("chat", "-q", "hi").stderr == ""
    path = configure(shell, "model:\n  default: scripted/echo\n bad: [1\n")
    done = shell.run("chat", "-q", "hi")
    assert done.stdout == "hi\n"
    assert f"warning: {path}:3:2: this line does not line up with its neighbours" in done.stderr


def test_a_config_that_is_broken_from_the_start_is_told_with_its_line(shell: Shell) -> None:
    path = configure(shell, "model:\n  default: scripted/echo\n  max_output: lots\n")
    done = shell.run("chat", "-q", "hi", *ECHO)
    assert (done.returncode, done.stdout) == (5, "")
    assert f"{path}:3:3: model.max_output: expected a whole number or null, got the text 'lots'" in done.stderr


def test_an_unknown_key_is_told_with_the_nearest_name(shell: Shell) -> None:
    path = configure(shell, "model:\n  defualt: scripted/echo\n")
    done = shell.run("chat", "-q", "hi", *ECHO)
    assert done.stdout == "hi\n"
    assert f"warning: {path}:2:3: model.defualt: unknown setting (did you mean `default`?)" in done.stderr


def test_a_mended_config_needs_no_restart(shell: Shell) -> None:
    configure(shell, "model: [\n")
    assert "expected , ] or }" in shell.run("chat", "-q", "hi", *ECHO).stderr
    configure(shell, "model: {default: scripted/echo}\n")
    done = shell.run("chat", "-q", "hi")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")


def test_a_key_put_into_env_is_used_by_the_next_message(shell: Shell) -> None:
    configure(
        shell,
        "providers: {lab: {base_url: 'http://127.0.0.1:9/v1', api_key_env: LAB_KEY}}\nagent: {api_max_retries: 0}\n",
    )
    done = shell.run("chat", "-q", "hi", "--model", "lab/x")
    assert done.returncode == 1
    assert "lab needs a key: set LAB_KEY" in done.stderr
    env = Path(shell.env["HERMES_HOME"]) / ".env"
    env.touch(0o600)
    env.write_text("LAB_KEY=sesame-open-1234\n")
    done = shell.run("chat", "-q", "hi", "--model", "lab/x")
    assert "needs a key" not in done.stderr
    assert "nothing listens there (connection refused)" in done.stderr
    assert "sesame" not in done.stderr


def test_a_closed_standard_input_is_an_empty_question(shell: Shell) -> None:
    for words in (("chat",), ("chat", "-q", "-", *ECHO)):
        done = closed(shell, "<&-", *words)
        assert done.returncode == 2
        assert done.stderr == "hermes: the question is empty: expected text from standard input\n"


def test_a_closed_standard_output_does_not_send_the_answer_into_the_socket(shell: Shell) -> None:
    done = closed(shell, "<&- >&-", "chat", "-q", "hi", *ECHO)
    assert (done.returncode, done.stderr) == (0, "")
    done = closed(shell, "<&- >&- 2>&-", "chat", "-q", "hi", *ECHO)
    assert done.returncode == 0
    log = (Path(shell.env["HERMES_HOME"]) / "logs" / "daemon.log").read_text()
    assert "parse" not in log
    assert closed(shell, ">&-", "sessions", "list").returncode == 0


def test_a_reader_that_leaves_after_one_line_ends_the_turn(shell: Shell) -> None:
    script = '"$@" | head -n 1; wait'
    command = ["bash", "-c", f'set -o pipefail; {script}', "sh", sys.executable, "-m", "hermes_shell", "chat", "--json",
               "-q", "go", "--model", "scripted/words?n=100000&delay_ms=1"]  # fmt: skip
    done = subprocess.run(command, cwd=shell.work, env=shell.env, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
    waited = shell.run("sessions", "list", "--json")
    assert '"state": "idle"' in waited.stdout


def test_a_locale_without_the_letters_loses_none_on_the_way(shell: Shell) -> None:
    shell.env |= {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-m", "hermes_shell", "chat", "-q", "grüße €", *ECHO]
    done = subprocess.run(words, cwd=shell.work, env=shell.env, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.stdout.decode() == "grüße €\n"
    listed = subprocess.run([*words[:3], "sessions", "list"], env=shell.env, capture_output=True)
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert b"gr??e ?" in listed.stdout


def test_folders_without_a_usable_name_are_named_as_such(shell: Shell) -> None:
    odd = os.path.join(os.fsencode(shell.work), b"b\xffd")
    os.mkdir(odd)
    words = [sys.executable, "-P", "-m", "hermes_shell", "chat", "-q", "hi", *ECHO]
    done = subprocess.run(words, cwd=odd, env=shell.env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is not UTF-8: rename it, or give --cwd" in done.stderr
    command = ["sh", "-c", 'cd "$1"; rmdir "$1"; shift; exec "$@"', "sh", str(shell.work / "gone"), *words]
    (shell.work / "gone").mkdir()
    done = subprocess.run(command, env=shell.env, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("the current folder does not exist any more: change to another, or give --cwd\n")


def test_homes_of_every_kind_of_name_work(shell: Shell, tmp_path: Path) -> None:
    long = "a-very-long-name-of-a-folder-" * 7
    for name in ("with space", "ünï-🍸", long):
        shell.env["HERMES_HOME"] = str(tmp_path / name)
        shell.env["XDG_RUNTIME_DIR"] = str(tmp_path / name / "run")
        done = shell.run("chat", "-q", "hi", *ECHO)
        assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", ""), name
        shell.run("daemon", "stop")


def test_a_home_too_deep_for_the_database_is_told_as_that(shell: Shell, tmp_path: Path) -> None:
    shell.env["HERMES_HOME"] = str(tmp_path / "/".join(["x" * 200] * 3))
    done = shell.run("chat", "-q", "hi", *ECHO)
    assert done.returncode == 69
    assert "SQLite takes 500; set HERMES_HOME to a shorter one" in done.stderr


@pytest.mark.parametrize("home", ["/proc/nowhere", "/etc/passwd/x"])
def test_a_home_that_cannot_be_made_is_named(shell: Shell, home: str) -> None:
    shell.env["HERMES_HOME"] = home
    done = shell.run("chat", "-q", "hi")
    assert done.returncode == 69
    assert done.stderr.startswith(f"hermes: cannot make the home folder {home}: ")
    assert done.stderr.endswith("; set HERMES_HOME\n")


def test_no_home_in_the_environment_is_no_hindrance(shell: Shell, tmp_path: Path) -> None:
    for name in ("HOME", "HERMES_HOME"):
        del shell.env[name]
    shell.env["XDG_DATA_HOME"] = str(tmp_path / "data")
    assert shell.run("chat", "-q", "hi", *ECHO).stdout == "hi\n"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ("--model", "scripted/nope"),
            5,
            "Unknown model 'scripted/nope': a model is named provider/name. Did you mean",
        ),
        (("--model", "opnai/x"), 5, "Unknown model 'opnai/x': a model is named provider/name. `hermes models` lists"),
        (("--session", "nope"), 5, "no session 'nope'; `hermes sessions list` shows them"),
        (("--cwd", "/nowhere/at/all"), 2, "--cwd /nowhere/at/all: not a folder"),
        (("--continue",), 5, "no session to continue in "),
    ],
)
def test_what_does_not_exist_is_named_with_what_to_do(
    shell: Shell, words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = shell.run("chat", "-q", "hi", *words)
    assert done.returncode == code
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_damaged_database_is_told_in_the_chat_and_in_the_log(shell: Shell) -> None:
    home = Path(shell.env["HERMES_HOME"])
    home.mkdir(mode=0o700)
    (home / "state.db").write_bytes(b"no database, but long enough for the header of one. " * 3)
    done = shell.run("chat", "-q", "hi", *ECHO)
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert "was damaged" in done.stderr
    assert "nothing of it was deleted" in done.stderr
    assert "was damaged" in shell.run("daemon", "logs").stdout


def test_the_log_tells_the_start_a_failed_turn_and_the_stop(shell: Shell) -> None:
    shell.run("chat", "-q", "hi", "--model", "local/smollm2")
    shell.run("daemon", "stop")
    log = shell.run("daemon", "logs").stdout
    assert "ready: version 0.1.0, pid " in log
    assert "failed: " in log
    assert log.splitlines()[-1].endswith(": stopped")


def test_completion_works_in_a_real_bash(shell: Shell) -> None:
    completion = shell.run("completion", "bash").stdout
    script = (
        completion
        + """
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _hermes; echo "${COMPREPLY[*]}"; }
try hermes sess
try hermes sessions ""
try hermes chat --se
"""
    )
    done = subprocess.run(["bash", "--norc", "-c", script], env=shell.env, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "sessions",
        "list show rename delete export search fork rewind archive unarchive events",
        "--session",
    ]
