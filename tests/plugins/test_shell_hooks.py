"""Hooks that are commands: what they are given, what their end means, and that they cannot stop the daemon."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ToolOutcome
from hermes_daemon.core.settings import HookCommand
from hermes_daemon.middleware.directives import Decision
from hermes_daemon.middleware.payloads import Draft, Operation, PointContext, ToolDone, TurnContext
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.middleware.styles import decide, observe, transform
from hermes_daemon.plugins.consent import Consent
from hermes_daemon.plugins.shell_hooks import ShellHook, from_hooks_json, from_settings, install
from tests.support.process_groups import living
from tests.support.shared_data import case

CALL = Operation("c1", "terminal", {"command": "ls", "api_key": "sk"})
CONTEXT = PointContext(session_id="s1", turn_id="t1")


class Hooks:
    """Hooks in place; `failures` are what was reported."""

    def __init__(self, folder: Path, hooks: list[ShellHook]) -> None:
        self.registry = Registry()
        self.failures: list[str] = []
        self.waiting = install(
            hooks, self.registry, Consent(str(folder), all=True), cwd_of=lambda _: str(folder), environ=dict(os.environ)
        )

    def report(self, _: Any, error: BaseException) -> None:
        self.failures.append(str(error))

    def decide(self, value: Any, point: str = "pre_tool_call") -> Decision | None:
        return asyncio.run(decide(self.registry.snapshot(point), value, CONTEXT, self.report))

    def fold(self, value: Any, point: str) -> Any:
        return asyncio.run(transform(self.registry.snapshot(point), value, CONTEXT, self.report))

    def observe(self, value: Any, point: str) -> None:
        asyncio.run(observe(self.registry.snapshot(point), value, CONTEXT, self.report))


def hooks(folder: Path, event: str, command: str, **fields: Any) -> Hooks:
    found, problems = from_settings({event: [HookCommand(command, **fields)]})
    assert problems == []
    return Hooks(folder, found)


def test_a_hook_reads_what_happens_as_json(tmp_path: Path) -> None:
    assert hooks(tmp_path, "pre_tool_call", "cat > seen.json").decide(CALL) is None
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen == {
        "hook_event_name": "pre_tool_call",
        "session_id": "s1",
        "cwd": str(tmp_path),
        "tool_name": "terminal",
        "tool_input": {"command": "ls", "api_key": "[REDACTED]"},
        "profile": "",
        "extra": {"args": {"command": "ls", "api_key": "[REDACTED]"}},
    }


@pytest.mark.parametrize(
    ("command", "action", "message"),
    [
        ("echo 'not here' >&2; exit 2", "block", "not here"),
        ("""echo '{"decision": "block", "reason": "no"}'""", "block", "no"),
        ("""echo '{"action": "block", "message": "no"}'""", "block", "no"),
        ("""echo '{"action": "approve", "message": "look"}'""", "approve", "look"),
        ("""echo '{"action": "modify", "args": {"command": "pwd"}}'""", "modify", None),
    ],
)
def test_what_a_policy_hook_says(tmp_path: Path, command: str, action: str, message: str | None) -> None:
    decision = hooks(tmp_path, "pre_tool_call", command).decide(CALL)
    assert decision is not None
    assert decision.action == action
    assert message is None or decision.message == message
    assert decision.fields == ({"command": "pwd"} if action == "modify" else {})


@pytest.mark.parametrize("command", ["true", "echo words", "echo '[1]'", "echo '{}'", "exec <&-"])
def test_what_says_nothing_changes_nothing(tmp_path: Path, command: str) -> None:
    found = hooks(tmp_path, "pre_tool_call", command)
    assert found.decide(CALL) is None
    assert found.failures == []


def test_a_hook_that_never_reads_a_big_input_is_fine(tmp_path: Path) -> None:
    call = Operation("c1", "write_file", {"content": "x" * 8000, "more": ["y" * 8000] * 4})
    assert hooks(tmp_path, "pre_tool_call", "exit 0").decide(call) is None


def test_a_policy_hook_that_breaks_blocks_and_an_observing_one_is_only_told(tmp_path: Path) -> None:
    found = hooks(tmp_path, "pre_tool_call", "echo broken >&2; exit 1")
    decision = found.decide(CALL)
    assert decision is not None
    assert decision.action == "block"
    assert "ended with 1: broken" in decision.message
    found = hooks(tmp_path, "post_tool_call", "exit 3")
    found.observe(ToolDone("terminal", {}, "out", "ok", ToolOutcome("out")), "post_tool_call")
    assert found.failures == ["'exit 3' ended with 3"]


def test_a_matcher_is_for_the_whole_name(tmp_path: Path) -> None:
    found = hooks(tmp_path, "pre_tool_call", "exit 2", matcher="term|read_file")
    assert found.decide(CALL) is None
    found = hooks(tmp_path, "pre_tool_call", "exit 2", matcher="term.*")
    assert found.decide(CALL) is not None


def test_context_goes_to_the_users_message_and_block_at_the_end_means_go_on(tmp_path: Path) -> None:
    found = hooks(tmp_path, "pre_llm_call", """echo '{"context": "today is Monday"}'""")
    assert found.fold(TurnContext("hi", True), "pre_llm_call").contexts == ("today is Monday",)
    decision = hooks(tmp_path, "pre_verify", "echo 'run the tests' >&2; exit 2").decide(
        Draft("done", ("a.py",), 0), "pre_verify"
    )
    assert decision is not None
    assert (decision.action, decision.message) == ("continue", "run the tests")


def test_a_hook_that_hangs_is_killed_with_all_it_started_and_others_run(tmp_path: Path) -> None:
    """Case hooks/hook-hangs."""
    shutil.copy(case("hooks", "hook-hangs") / "hook.sh", tmp_path / "hook.sh")
    command = "echo $$ > pid; exec sh ./hook.sh"
    found, _ = from_settings({"post_tool_call": [HookCommand(command, timeout=1), HookCommand("touch other")]})
    installed = Hooks(tmp_path, found)
    installed.observe(ToolDone("terminal", {}, "out", "ok", ToolOutcome("out")), "post_tool_call")
    assert (tmp_path / "other").exists()
    [failure] = installed.failures
    assert "took longer than 1 s and was killed" in failure
    assert living(int((tmp_path / "pid").read_text())) == []


def test_hooks_written_in_python_and_node_work(tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text(
        "import json, sys\ncall = json.load(sys.stdin)\n"
        "print(json.dumps({'action': 'block', 'message': 'py ' + call['tool_name']}))\n"
    )
    decision = hooks(tmp_path, "pre_tool_call", f"{sys.executable} hook.py").decide(CALL)
    assert decision is not None
    assert decision.message == "py terminal"
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    (tmp_path / "hook.mjs").write_text(
        "let text = ''; for await (const piece of process.stdin) text += piece;\n"
        "console.log(JSON.stringify({decision: 'block', reason: 'js ' + JSON.parse(text).tool_name}));\n"
    )
    decision = hooks(tmp_path, "pre_tool_call", "node hook.mjs").decide(CALL)
    assert decision is not None
    assert decision.message == "js terminal"


CLAUDE = {
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "cat > claude.json; exit 2", "timeout": 9}]},
            {"matcher": "Write|Edit", "hooks": [{"type": "command", "command": "exit 2"}]},
        ],
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo remember"}]}],
        "Stop": [{"hooks": [{"type": "prompt", "prompt": "done?"}]}],
        "NoSuch": [{"hooks": [{"type": "command", "command": "true"}]}],
    }
}


def test_hooks_that_people_already_have_work(tmp_path: Path) -> None:
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps(CLAUDE))
    found, problems = from_hooks_json(str(path))
    assert problems == [
        f"{path}: Stop[0].hooks[0]: only hooks of type command can be run here",
        f"{path}: NoSuch[0].hooks[0]: there is no hook 'NoSuch'",
    ]
    installed = Hooks(tmp_path, found)
    decision = installed.decide(CALL)
    assert decision is not None
    assert decision.action == "block"
    seen = json.loads((tmp_path / "claude.json").read_text())
    assert (seen["tool_name"], seen["tool_input"]["command"], seen["hook_event_name"]) == ("Bash", "ls", "PreToolUse")
    assert installed.fold(TurnContext("hi", True), "pre_llm_call").contexts == ("remember",)


def test_claudes_words_for_a_decision(tmp_path: Path) -> None:
    def said(**special: Any) -> Decision | None:
        output = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **special}})
        hook = ShellHook("pre_tool_call", "PreToolUse", f"echo '{output}'", claude=True)
        return Hooks(tmp_path, [hook]).decide(CALL)

    denied = said(permissionDecision="deny", permissionDecisionReason="never")
    assert denied is not None
    assert (denied.action, denied.message) == ("block", "never")
    asked = said(permissionDecision="ask")
    assert asked is not None
    assert asked.action == "approve"
    assert said(permissionDecision="allow") is None
    changed = said(permissionDecision="allow", updatedInput={"command": "pwd"})
    assert changed is not None
    assert changed.fields == {"command": "pwd"}


def test_nothing_runs_before_consent_and_consent_is_for_the_very_words(tmp_path: Path) -> None:
    consent = Consent(str(tmp_path))
    hook = ShellHook("post_tool_call", "post_tool_call", "touch ran")
    registry = Registry()
    waiting = install([hook], registry, consent, cwd_of=str, environ={})
    assert waiting == ["the hook 'touch ran' for post_tool_call waits for consent: hermes hooks allow"]
    assert registry.rows() == []
    consent.give(hook.event, hook.command)
    assert install([hook], registry, Consent(str(tmp_path)), cwd_of=str, environ={}) == []
    assert len(registry.rows()) == 1
    other = ShellHook("post_tool_call", "post_tool_call", "touch ran ")
    assert install([other], registry, consent, cwd_of=str, environ={}) != []
    consent.withdraw(hook.event, hook.command)
    assert not consent.given(hook.event, hook.command)


@pytest.mark.parametrize(
    ("event", "command", "fields", "said"),
    [
        ("pre_tool_cal", "true", {}, "hooks.pre_tool_cal[0]: there is no hook 'pre_tool_cal'"),
        ("tool_execution", "true", {}, "hooks.tool_execution[0]: there is no hook 'tool_execution'"),
        ("pre_tool_call", " ", {}, "hooks.pre_tool_call[0]: expected a command"),
        ("pre_tool_call", "true", {"matcher": "("}, "hooks.pre_tool_call[0]: matcher '(' is no regular expression"),
    ],
)
def test_a_hook_that_cannot_be_says_where(event: str, command: str, fields: dict[str, str], said: str) -> None:
    found, [problem] = from_settings({event: [HookCommand(command, **fields)]})  # type: ignore[arg-type]
    assert found == []
    assert problem.startswith(said)


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": 3}'])
def test_a_hooks_json_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hooks.json"
    path.write_text(text)
    found, [problem] = from_hooks_json(str(path))
    assert found == []
    assert problem.startswith(f"{path}: ")
