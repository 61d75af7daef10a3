"""Hooks that are commands: from `hooks:` in config.yaml, and from a hooks.json in the way of Claude Code.

Each is registered at a point like any other link. Nothing runs before the user has consented to the very command.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from hermes_daemon.core.settings import HookCommand
from hermes_daemon.middleware.directives import Directive
from hermes_daemon.middleware.payloads import Operation, PointContext, ToolDone, TurnContext
from hermes_daemon.middleware.points import ALIASES, POINTS, OnError
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.middleware.sanitising import sanitised
from hermes_daemon.plugins.consent import Consent
from hermes_daemon.plugins.hook_process import BLOCKS, HookFailed, Ran, run_hook

OWNER: Final = "hooks"
CLAUDE_EVENTS: Final = {
    "PreToolUse": "pre_tool_call",
    "PostToolUse": "post_tool_call",
    "UserPromptSubmit": "pre_llm_call",
    "Stop": "pre_verify",
    "SessionStart": "on_session_start",
    "SessionEnd": "on_session_finalize",
    "SubagentStop": "subagent_stop",
    "PreCompact": "compaction_request",
    "Notification": "on_human_input_request",
}
CLAUDE_TOOLS: Final = {"terminal": "Bash", "read_file": "Read", "write_file": "Write", "patch": "Edit",
                       "search_files": "Grep"}  # fmt: skip
SURROUNDINGS: Final = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "SHELL", "TMPDIR", "TZ")


class ShellHook(msgspec.Struct, frozen=True):
    """A command at a point. `event` is the name it was given under, `claude` says whose words it speaks."""

    point: str
    event: str
    command: str
    matcher: str = ""
    timeout: float = 60.0
    fail_closed: bool = False
    claude: bool = False


def from_settings(hooks: Mapping[str, Sequence[HookCommand]]) -> tuple[list[ShellHook], list[str]]:
    """(the hooks of config.yaml, what is wrong with others)."""
    found, problems = [], []
    for event, commands in hooks.items():
        point = _point(event)
        for index, each in enumerate(commands):
            where = f"hooks.{event}[{index}]"
            fault = _fault(point, event, each.command, each.matcher)
            if fault:
                problems.append(f"{where}: {fault}")
            else:
                claude = event in CLAUDE_EVENTS
                found.append(
                    ShellHook(point, event, each.command, each.matcher, each.timeout, each.fail_closed, claude)
                )
    return found, problems


def from_hooks_json(path: str) -> tuple[list[ShellHook], list[str]]:
    """The hooks of a hooks.json (`{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command",
    "command": "…", "timeout": 60}]}]}}`), and what is wrong with others. None for a file that is not there."""
    try:
        with open(path, "rb") as file:
            values = msgspec.json.decode(file.read())
    except FileNotFoundError:
        return [], []
    except (OSError, msgspec.DecodeError) as error:
        return [], [f"{path}: {error}"]
    events = values.get("hooks", values) if isinstance(values, dict) else None
    if not isinstance(events, dict):
        return [], [f"{path}: expected an object of events"]
    found: list[ShellHook] = []
    problems: list[str] = []
    for event, groups in events.items():
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, dict) else None
            for number, each in enumerate(inner if isinstance(inner, list) else ()):
                where = f"{path}: {event}[{index}].hooks[{number}]"
                hook, fault = _claude(event, str(group.get("matcher") or ""), each)
                if hook is not None:
                    found.append(hook)
                else:
                    problems.append(f"{where}: {fault}")
    return found, problems


def _claude(event: str, matcher: str, each: Any) -> tuple[ShellHook | None, str]:
    if not isinstance(each, dict) or each.get("type", "command") != "command":
        return None, "only hooks of type command can be run here"
    command, timeout = each.get("command"), each.get("timeout", 60)
    if not isinstance(command, str) or not isinstance(timeout, (int, float)):
        return None, "expected a command and a number of seconds"
    matcher = "" if matcher in ("", "*") else matcher
    fault = _fault(_point(event), event, command, matcher)
    if fault:
        return None, fault
    return ShellHook(_point(event), event, command, matcher, min(max(timeout, 1), 300), claude=True), ""


def _point(event: str) -> str:
    name = CLAUDE_EVENTS.get(event, event)
    return ALIASES.get(name, name)


def _fault(point: str, event: str, command: str, matcher: str) -> str:
    if point not in POINTS or POINTS[point].style == "around":
        return f"there is no hook {event!r}"
    if not command.strip():
        return "expected a command"
    try:
        re.compile(matcher)
    except re.error as error:
        return f"matcher {matcher!r} is no regular expression: {error}"
    return ""


def install(
    hooks: Sequence[ShellHook],
    registry: Registry,
    consent: Consent,
    *,
    cwd_of: Callable[[str], str],
    environ: Mapping[str, str],
    profile: str = "",
) -> list[str]:
    """Put the hooks in place of those that were; the sentences of those that wait for consent."""
    registry.remove_owner(OWNER)
    waiting = []
    for hook in hooks:
        if not consent.given(hook.event, hook.command):
            waiting.append(f"the hook {hook.command!r} for {hook.event} waits for consent: hermes hooks allow")
            continue
        call = functools.partial(_called, hook, cwd_of, dict(environ), profile)
        on_error: OnError | None = "closed" if hook.fail_closed or hook.point == "pre_tool_call" else None
        # Its own limit kills the process; the link's is only for what would hang in spite of that.
        registry.use(hook.point, _named(call, hook), owner=OWNER, on_error=on_error, timeout_s=hook.timeout + 5)
    return waiting


def _named(call: Callable[[Any, Any], Awaitable[Any]], hook: ShellHook) -> Callable[..., Any]:
    async def shell_hook(value: Any, context: Any) -> Any:
        return await call(value, context)

    shell_hook.__qualname__ = f"shell_hook({hook.command})"
    return shell_hook


async def _called(
    hook: ShellHook, cwd_of: Callable[[str], str], environ: Mapping[str, str], profile: str, value: Any, context: Any
) -> Any:
    tool = value.name if isinstance(value, Operation) else getattr(value, "tool_name", "")
    if hook.matcher and tool and not _matches(hook, tool):
        return None
    session_id = context.session_id if isinstance(context, PointContext) else ""
    cwd = cwd_of(session_id)
    payload = _payload(hook, value, tool, session_id, cwd, profile)
    env = {name: environ[name] for name in SURROUNDINGS if name in environ}
    env |= {"HERMES_SESSION_ID": session_id, "HERMES_HOOK_EVENT": hook.event, "CLAUDE_PROJECT_DIR": cwd}
    ran = await run_hook(hook.command, payload, cwd=cwd, env=env, timeout_s=hook.timeout)
    return _answer(hook, ran, value)


def _matches(hook: ShellHook, tool: str) -> bool:
    names = {tool, CLAUDE_TOOLS.get(tool, tool)} if hook.claude else {tool}
    return any(re.fullmatch(hook.matcher, name) for name in names)


def _payload(hook: ShellHook, value: Any, tool: str, session_id: str, cwd: str, profile: str) -> bytes:
    fields = sanitised(_plain(value))
    shape: dict[str, Any] = {"hook_event_name": hook.event, "session_id": session_id, "cwd": cwd}
    if tool:
        shape["tool_name"] = CLAUDE_TOOLS.get(tool, tool) if hook.claude else tool
        shape["tool_input"] = sanitised(value.args) if hasattr(value, "args") else {}
    if hook.claude:
        if isinstance(value, ToolDone):
            shape["tool_response"] = sanitised({"content": value.result, "status": value.status})
        if isinstance(value, TurnContext):
            shape["prompt"] = value.user_message
        shape["transcript_path"] = ""
    else:
        shape |= {"profile": profile, "extra": fields}
    return json.dumps(shape, ensure_ascii=False).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        hidden: frozenset[str] = getattr(value, "HIDDEN", frozenset())
        return {name: getattr(value, name) for name in value.__struct_fields__ if name not in hidden}
    return value


def _answer(hook: ShellHook, ran: Ran, value: Any) -> Any:
    """What the hook's end means at its point. HookFailed for an end that means nothing."""
    words = ran.stderr.strip()
    if ran.code == BLOCKS:
        return _refusal(hook, words or f"{hook.command} said no", value)
    if ran.code:
        raise HookFailed(f"{hook.command!r} ended with {ran.code}" + (f": {words[:500]}" if words else ""))
    text = ran.stdout.strip()
    if not text:
        return None
    try:
        said = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return _with_context(value, text) if hook.claude else None  # words of a hook that speaks no JSON
    if not isinstance(said, dict):
        return None
    return _said(hook, said, value)


def _said(hook: ShellHook, said: dict[str, Any], value: Any) -> Any:
    special = said.get("hookSpecificOutput")
    special = special if isinstance(special, dict) else {}
    action = said.get("action") or said.get("decision") or special.get("permissionDecision")
    reason = (
        said.get("message") or said.get("reason") or special.get("permissionDecisionReason") or said.get("stopReason")
    )
    reason = str(reason or f"{hook.command} said no")
    if action in ("block", "deny") or said.get("continue") is False:
        return _refusal(hook, reason, value)
    if POINTS[hook.point].style == "decide":
        if action in ("approve", "ask") and hook.point == "pre_tool_call":
            # In Claude's words "approve" waves a call through; here nothing but people and rules do.
            return None if hook.claude and action == "approve" else Directive("approve", reason)
        if action == "continue":
            return Directive("continue", reason)
        changed = special.get("updatedInput") or (said.get("args") if action == "modify" else None)
        if isinstance(changed, dict):
            return Directive("modify", reason, changed)
        return None
    context = said.get("context") or special.get("additionalContext")
    if isinstance(context, str) and context.strip():
        return _with_context(value, context)
    result = said.get("result")
    if isinstance(value, ToolDone) and isinstance(result, str):
        return msgspec.structs.replace(value, result=result)
    return None


def _refusal(hook: ShellHook, reason: str, value: Any) -> Any:
    if hook.point == "pre_verify":
        return Directive("continue", reason)
    if POINTS[hook.point].style == "decide":
        return Directive("block", reason)
    if isinstance(value, ToolDone) and POINTS[hook.point].style == "transform":
        return msgspec.structs.replace(value, result=f"{value.result}\n\n{reason}")
    raise HookFailed(f"{hook.command!r} wants to stop {hook.event}, which cannot be stopped: {reason}")


def _with_context(value: Any, text: str) -> Any:
    if isinstance(value, TurnContext):
        return msgspec.structs.replace(value, contexts=(*value.contexts, text))
    return None


def hooks_file(home: str) -> str:
    """Where a hooks.json of the user's lies."""
    return os.path.join(home, "hooks.json")
