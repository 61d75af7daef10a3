"""`hermes plugins`, and commands of `hermes` that plugins bring, with a real daemon."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_daemon import Frame, LocalDaemon, Peer
from tests.support.local_shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as shell:
        yield shell


def home(shell: Shell) -> Path:
    return Path(shell.env["HERMES_HOME"])


def ok(shell: Shell, *words: str) -> str:
    done = shell.run(*words)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def plugin(shell: Shell, id: str, code: str, manifest: str = "") -> Path:
    folder = home(shell) / "plugins" / id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plugin.yaml").write_text(manifest or f"name: {id}\n")
    (folder / "plugin.py").write_text(code)
    return folder


@pytest.mark.parametrize("style", ["hermes", "prism", "plain"])
def test_a_new_plugin_is_valid_and_its_own_test_passes(shell: Shell, style: str) -> None:
    said = ok(shell, "plugins", "new", "my-thing", "--style", style)
    folder = home(shell) / "plugins" / "my_thing"
    assert said.splitlines()[0] == str(folder)
    done = shell.run("plugins", "validate", str(folder), "--run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"my-thing 0.1.0 in {folder} is valid\n"
    pytest_words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    tested = subprocess.run(pytest_words, env=shell.env, cwd=shell.work, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout
    assert shell.run("plugins", "new", "my-thing").returncode == 1
    assert shell.daemon_pid() is None


@pytest.mark.parametrize("name", ["My", "../up", "-x", ""])
def test_a_name_that_is_none_is_refused(shell: Shell, name: str) -> None:
    done = shell.run("plugins", "new", "--", name)
    assert done.returncode == 2
    assert not home(shell).exists()


def test_enable_and_disable_write_the_configuration_with_its_comments(shell: Shell) -> None:
    ok(shell, "plugins", "new", "one")
    config = home(shell) / "config.yaml"
    config.write_text("# mine\nplugins:\n  enabled: []  # none yet\n")
    assert ok(shell, "plugins", "list").splitlines()[1].split()[:4] == ["one", "0.1.0", "home", "disabled"]
    said = ok(shell, "plugins", "enable", "one")
    assert said == "one is loaded: tools one_calls; points llm_request, post_tool_call\n"
    assert "# mine" in config.read_text()
    assert "one_calls" in ok(shell, "tools")
    ok(shell, "plugins", "enable", "one")
    assert config.read_text().count("one") == 2  # the id, and "# none yet"
    assert ok(shell, "plugins", "disable", "one") == "one is disabled\n"
    assert "one_calls" not in ok(shell, "tools")
    refused = shell.run("plugins", "enable", "oen")
    assert refused.returncode == 5
    assert "did you mean 'one'?" in refused.stderr


def test_settings_are_read_set_and_refused_by_their_type(shell: Shell) -> None:
    schema = (
        "config_schema: {pairs: {type: integer, default: 3, minimum: 1}, word: {default: x}, key: {type: secret}}\n"
    )
    plugin(
        shell, "gate", "def register(ctx): ctx.register_command('n', lambda a: str(ctx.get_config('pairs')))\n", schema
    )
    ok(shell, "plugins", "enable", "gate")
    assert ok(shell, "plugins", "config", "gate", "pairs") == "3\n"
    assert ok(shell, "plugins", "config", "gate", "pairs", "7") == "pairs = 7\n"
    refused = shell.run("plugins", "config", "gate", "pairs", "0")
    assert refused.returncode == 5
    assert "expected a whole number of at least 1, got 0" in refused.stderr
    assert ok(shell, "plugins", "config", "gate", "pairs") == "7\n"
    assert ok(shell, "plugins", "config", "gate", "word", "5") == "word = 5\n"
    assert ok(shell, "plugins", "config", "gate", "pairs", "--unset") == "pairs = 3\n"
    ok(shell, "plugins", "config", "gate", "key", "sk-very-secret")
    assert "sk-very-secret" not in ok(shell, "plugins", "config", "gate") + ok(shell, "plugins", "show", "gate")
    unknown = shell.run("plugins", "config", "gate", "pears")
    assert "did you mean 'pairs'?" in unknown.stderr


def test_unknown_settings_are_told_at_their_path_by_show_and_doctor(shell: Shell) -> None:
    plugin(shell, "gate", "def register(ctx): pass\n", "config_schema: {pairs: {type: integer, default: 3}}\n")
    (home(shell) / "config.yaml").write_text(
        "plugins: {enabled: [gate], entries: {gate: {settings: {pears: 1}}}}\n"
        "hooks: {pre_tool_call: [{command: 'true'}]}\n"
    )
    text = "$.plugins.entries.gate.settings.pears: there is no such setting, did you mean 'pairs'?"
    assert text in ok(shell, "plugins", "show", "gate")
    rows = json.loads(shell.run("doctor", "--json").stdout)
    assert [row["text"] for row in rows if row["name"] == "plugin"] == [text]
    assert [row["text"] for row in rows if row["name"] == "hook"] == [
        "'true' for pre_tool_call waits for consent and does not run"
    ]
    assert [row["level"] for row in rows if row["name"] == "configuration"] == ["ok"]


def test_a_plugin_that_fails_says_why_everywhere(shell: Shell) -> None:
    folder = plugin(shell, "odd", "def register(ctx): raise ValueError('no')\n")
    done = shell.run("plugins", "enable", "odd")
    assert done.returncode == 1
    assert "odd is enabled and cannot be loaded: ValueError: no (plugin.py, line 1)" in done.stderr
    rows = json.loads(shell.run("doctor", "--json").stdout)
    assert [row["text"] for row in rows if row["name"] == "plugin"] == ["odd: ValueError: no (plugin.py, line 1)"]
    assert shell.run("plugins", "reload").returncode == 1
    (folder / "plugin.py").write_text("def register(ctx): pass\n")
    assert ok(shell, "plugins", "reload", "odd") == "loaded: odd\n"


def test_a_retired_plugin_is_not_enabled(shell: Shell) -> None:
    plugin(shell, "old", "", "retired: its work is done by other\n")
    refused = shell.run("plugins", "enable", "old")
    assert refused.returncode == 5
    assert "its work is done by other" in refused.stderr
    assert not (home(shell) / "config.yaml").exists()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"plugin.yaml": "nmae: x\n", "plugin.py": "def register(ctx): pass\n"}, "did you mean 'name'?"),
        ({"plugin.yaml": "name: x\n"}, "has neither plugin.py nor __init__.py"),
        ({"plugin.yaml": "name: x\n", "plugin.py": "def register(:\n"}, "plugin.py: line 1: "),
        ({"plugin.yaml": "name: x\n", "plugin.py": "y = 1\n"}, "has no function register(ctx)"),
        ({"plugin.yaml": "provides_hooks: [pre_tool_cal]\n", "plugin.py": "def register(ctx): pass\n"},
         "no point is called 'pre_tool_cal', did you mean 'pre_tool_call'?"),
        ({"plugin.yaml": "config_schema: {a: {type: int, default: x}}\n", "plugin.py": "def register(ctx): pass\n"},
         "$.config_schema.a.default: expected a whole number"),
        ({"plugin.yaml": "provides_tools: [t]\n", "plugin.py": "def register(ctx): pass\n"}, "t is not registered"),
        ({"plugin.yaml": "name: x\n", "plugin.py": "def register(ctx): ctx.registr_tool()\n"}, "AttributeError"),
        ({"plugin.py": "def register(ctx): pass\n"}, "has no plugin.yaml"),
    ],
)  # fmt: skip
def test_validate_says_what_is_wrong(shell: Shell, files: dict[str, str], said: str) -> None:
    folder = shell.work / "x"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    done = shell.run("plugins", "validate", "x", "--run")
    assert said in done.stderr
    assert done.returncode == (0 if "nmae" in files.get("plugin.yaml", "") else 1)


def test_validate_runs_no_code_unless_it_is_told_to(shell: Shell) -> None:
    folder = plugin(shell, "trap", "raise SystemError('ran')\ndef register(ctx): pass\n")
    assert ok(shell, "plugins", "validate", "trap") == f"trap 0 in {folder} is valid\n"
    assert "ran" in shell.run("plugins", "validate", "trap", "--run").stderr
    assert "neither a folder nor a plugin" in shell.run("plugins", "validate", "nowhere").stderr


def test_a_word_of_a_plugin_is_a_command_with_its_own_exit_code(shell: Shell) -> None:
    code = """
def register(ctx):
    ctx.register_cli_command("weigh", lambda arguments: (f"<{arguments}>", 3 if arguments else 0), "weighs", "THING")
"""
    plugin(shell, "scales", code)
    ok(shell, "plugins", "enable", "scales")
    done = shell.run("weigh", "a b", "--json")
    assert (done.returncode, done.stderr) == (3, "<'a b' --json>\n")
    assert ok(shell, "weigh") == "<>\n"
    assert ok(shell, "weigh", "--help").startswith("usage: hermes weigh THING\n\n  weighs")
    unknown = shell.run("weihg")
    assert unknown.returncode == 2
    assert "unknown command 'weihg'" in unknown.stderr


def test_a_mistyped_command_starts_no_daemon(shell: Shell) -> None:
    done = shell.run("sesions")
    assert done.returncode == 2
    assert "did you mean 'sessions'?" in done.stderr
    assert shell.daemon_pid() is None


def test_a_daemon_without_plugins_is_no_reason_for_another_error(shell: Shell) -> None:
    def answer(peer: Peer, frame: Frame) -> None:
        peer.error(frame, -32601, "method_not_found", f"no method {frame['method']}")

    with LocalDaemon(shell.address.socket_path, answer):
        done = shell.run("weigh")
    assert done.returncode == 2
    assert "unknown command 'weigh'" in done.stderr


@pytest.mark.parametrize(("variable", "state"), [("", "loaded"), ("HERMES_SAFE_MODE", "enabled")])
def test_safe_mode_is_asked_for_by_a_variable(shell: Shell, variable: str, state: str) -> None:
    plugin(shell, "one", "def register(ctx): pass\n")
    (home(shell) / "config.yaml").write_text("plugins: {enabled: [one]}\n")
    if variable:
        shell.env[variable] = "1"
    [row] = json.loads(ok(shell, "plugins", "--json"))
    assert row["state"] == state


def test_a_projects_plugins_are_found_when_a_variable_allows_it(shell: Shell) -> None:
    folder = shell.work / ".hermes" / "plugins" / "local_one"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: local-one\n")
    (folder / "plugin.py").write_text("def register(ctx): pass\n")
    assert json.loads(ok(shell, "plugins", "--json")) == []
    ok(shell, "daemon", "stop", "--now")
    shell.env |= {"HERMES_ENABLE_PROJECT_PLUGINS": "1", "PWD": str(shell.work)}
    [row] = json.loads(ok(shell, "plugins", "--json"))
    assert (row["id"], row["source"], row["state"]) == ("local-one", "project", "disabled")
