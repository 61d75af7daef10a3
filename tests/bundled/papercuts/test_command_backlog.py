"""A program that keeps the papercuts in place of the built-in store."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hermes_daemon.api.testing import Installed, a_result, install
from tests.support.plugin_home import BUNDLED

KEEPER = """#!{python}
import fcntl, json, os, sys
mode, given = sys.argv[1], json.load(sys.stdin)
path = os.path.join(os.path.dirname(__file__), "kept.json")
with open(path + ".lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    kept = json.load(open(path)) if os.path.exists(path) else {{}}
    answer = {{"papercuts": list(kept.values())}}
    if mode == "report":
        cut = kept.setdefault(given["signature"], dict(
            given, id="x-" + given["signature"][:4], status="open", recurrence=0, timed_report_count=0,
            first_seen=given["now"]))
        cut.update(recurrence=cut["recurrence"] + 1, last_seen=given["now"])
        answer = {{"papercut": cut}}
    elif mode in ("ack", "resolve"):
        found = [cut for cut in kept.values() if cut["id"] == given["id"]]
        answer = {{"error": "unknown_id"}}
        if found:
            word = {{"ack": "acked", "resolve": "resolved"}}[mode]
            answer = {{"papercut": found[0], "changed": found[0]["status"] != word}}
            found[0]["status"] = word
    json.dump(kept, open(path, "w"))
if os.path.exists(path + ".fail"):
    sys.exit(3)
print(json.dumps(answer))
"""


@pytest.fixture
def keeper(tmp_path: Path) -> Path:
    program = tmp_path / "keeper"
    program.write_text(KEEPER.format(python=sys.executable))
    program.chmod(0o700)
    return program


def ask(plugin: Installed, **args: object) -> tuple[bool, str]:
    outcome = plugin.tool("papercuts", **args)
    return outcome.is_error, outcome.text


def test_a_program_keeps_them_and_the_quota_stays_ours(keeper: Path) -> None:
    settings = {"binary": str(keeper), "auto_capture": True, "daily_quota": 2}
    with install(BUNDLED / "papercuts", settings) as plugin:
        report = {"mode": "report", "category": "tool", "severity": "low", "expected": "a", "observed": "b"}
        _, text = ask(plugin, **report)
        first = json.loads(text)
        _, text = ask(plugin, **report)
        assert json.loads(text) == {"id": first["id"], "status": "open", "recurrence": 2, "new": False}
        for words in ("one", "two", "three"):
            plugin.observe("post_tool_call", a_result(words, failed=True))
        assert json.loads(ask(plugin, mode="list")[1])["total"] == 3
        told = json.loads(ask(plugin, mode="friction")[1])
        assert told["outcomes"] == {"post_tool_call": {"filed": 2, "quota": 1}}
        assert json.loads(ask(plugin, mode="resolve", id=first["id"])[1])["changed"] is True
        assert json.loads(ask(plugin, mode="resolve", id=first["id"])[1])["changed"] is False
        assert json.loads(ask(plugin, mode="ack", id="x-gone")[1])["error"] == "unknown_id"


def test_a_program_that_fails_is_named_and_costs_no_quota(keeper: Path, tmp_path: Path) -> None:
    (tmp_path / "kept.json.fail").touch()
    with install(BUNDLED / "papercuts", {"binary": str(keeper), "auto_capture": True}) as plugin:
        plugin.observe("post_tool_call", a_result("one", failed=True))
        failed, text = ask(plugin, mode="list")
        assert failed
        assert f"{keeper} list: exit code 3" in text
        (tmp_path / "kept.json.fail").unlink()
        told = json.loads(ask(plugin, mode="friction")[1])
        assert (told["outcomes"], told["quota"]["used"]) == ({"post_tool_call": {"failed": 1}}, 0)


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    with install(BUNDLED / "papercuts", {"binary": str(tmp_path / "none")}) as plugin:
        failed, text = ask(plugin, mode="list")
        assert failed
        assert f"{tmp_path}/none: No such file or directory" in text
