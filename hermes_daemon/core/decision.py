"""May this call run, must somebody be asked, or will it never run: one answer from the card, the arguments, the
settings, the mode and what was granted before. Silence is never consent: what is not allowed here is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from posixpath import join, normpath
from typing import Any, Literal

import msgspec

from hermes_daemon.core.commands import Command, Parsed, parse_line
from hermes_daemon.core.danger_rows import Danger
from hermes_daemon.core.dangers import dangers_of, edit_danger
from hermes_daemon.core.grants import Grant, command_grant, edit_grant, exact_grant, tool_grant
from hermes_daemon.core.hardline import hardline
from hermes_daemon.core.ports import ToolCard
from hermes_daemon.core.settings import ApprovalSettings
from hermes_protocol.events import PermissionOption

Mode = Literal["manual", "smart", "off"]


class Verdict(msgspec.Struct, frozen=True):
    """`allow` and `deny` are final. `ask` opens a question with `options`, the first one being the default.

    `reason` is for people, and for the model when denied (then a whole sentence). `risk` says what a dangerous call
    would do, else it is empty. `grant` is the key to keep when the answer is allow_session or allow_always.
    """

    kind: Literal["allow", "ask", "deny"]
    reason: str = ""
    risk: str = ""
    options: tuple[PermissionOption, ...] = ()
    grant: str = ""


def judge(
    card: ToolCard,
    args: Mapping[str, Any],
    *,
    settings: ApprovalSettings,
    mode: Mode,
    grants: frozenset[str],
    cwd: str,
    home: str = "",
) -> Verdict:
    """The verdict on a call with its final arguments.

    In this order: the hardline list and `settings.deny` hold in every mode; mode "off" allows the rest; read-only
    tools run; `settings.allow` and earlier grants allow; everything else is asked. A dangerous call is allowed only
    by mode "off", by its exact grant or by an allow rule without wildcards that is exactly it. Mode "smart" asks like
    "manual". `home` is the user's home folder, for what `~` means.
    """
    command = args.get("command") if card.kind == "execute" else None
    if isinstance(command, str):
        return _judge_command(card, command, str(args.get("workdir") or ""), settings, mode, grants, cwd, home)
    arguments = _arguments(card, args, cwd)
    denied = _matching(settings.deny, card.name, arguments)
    if denied:
        return _denied_by_rule(denied)
    if mode == "off" or card.read_only:
        return Verdict("allow", "mode off" if mode == "off" else "it only reads")
    danger = edit_danger(arguments[-1]) if card.kind == "edit" and arguments else None
    grant = edit_grant(cwd) if card.kind == "edit" else tool_grant(card.name)
    allowed = _matching(settings.allow, card.name, arguments[1:] or arguments)
    if danger is None:
        if allowed or grant.key in grants:
            return Verdict("allow", f"allowed by {allowed or grant.key}")
        return _asked("it changes a file" if card.kind == "edit" else f"{card.name} may change something", grant)
    exact = Grant(f"{card.name}:={arguments[-1]}", "exactly this file")
    if exact.key in grants or any(
        rule == f"{card.name}:{argument}" for rule in settings.allow for argument in arguments
    ):
        return Verdict("allow", "allowed by name")
    return _asked_dangerous((danger,), exact)


def _judge_command(
    card: ToolCard,
    line: str,
    workdir: str,
    settings: ApprovalSettings,
    mode: Mode,
    grants: frozenset[str],
    cwd: str,
    home: str,
) -> Verdict:
    folder = normpath(join(cwd, workdir)) if workdir else cwd
    parsed = parse_line(line, folder, home)
    never = hardline(parsed, home)
    if never:
        return Verdict("deny", f"this command never runs, in any mode: {never}.")
    denied = _matching(settings.deny, card.name, [line.strip(), *(command.text for command in parsed.commands)])
    if denied:
        return _denied_by_rule(denied)
    if mode == "off":
        return Verdict("allow", "mode off")
    dangers = dangers_of(parsed.commands)
    exact = exact_grant(line, folder)
    if exact.key in grants or f"{card.name}:{line.strip()}" in settings.allow:
        return Verdict("allow", "this command was allowed")
    if dangers:
        return _asked_dangerous(dangers, exact)
    grant = command_grant(line, parsed, folder)
    if grant.key in grants or _all_allowed(settings.allow, card.name, parsed):
        return Verdict("allow", f"allowed by {grant.key if grant.key in grants else 'approvals.allow'}")
    return _asked("it runs a command", grant)


def _all_allowed(rules: tuple[str, ...], name: str, parsed: Parsed) -> bool:
    """Every command of the line needs a rule; one that writes a file needs a rule that speaks of the redirect."""

    def allowed(command: Command) -> bool:
        writes = any(redirect.writes for redirect in command.redirects)
        fitting = (rule for rule in rules if not writes or ">" in rule or rule == name)
        return bool(_matching(fitting, name, [command.text])) and not (command.assignments and name not in rules)

    return bool(rules) and bool(parsed.commands) and all(allowed(command) for command in parsed.commands)


def _matching(rules: Iterable[str], name: str, arguments: Iterable[str]) -> str:
    """The first rule `tool` or `tool:argument` that matches, or an empty text."""
    candidates = [name, *(f"{name}:{argument}" for argument in arguments)]
    return next((rule for rule in rules if any(fnmatchcase(candidate, rule) for candidate in candidates)), "")


def _arguments(card: ToolCard, args: Mapping[str, Any], cwd: str) -> list[str]:
    """What rules are compared with: a path as written, absolute, and relative to the folder; else every text."""
    if not card.paths:
        return [value for value in args.values() if isinstance(value, str)]
    found: list[str] = []
    for name in card.paths:
        value = args.get(name)
        if isinstance(value, str):
            whole = normpath(join(cwd, value))
            inside = whole.startswith(f"{cwd.rstrip('/')}/")
            found += [value, whole, whole[len(cwd.rstrip("/")) + 1 :] if inside else whole]
    return found


def _denied_by_rule(rule: str) -> Verdict:
    return Verdict("deny", f"the setting approvals.deny forbids it ({rule}).")


def _asked(reason: str, grant: Grant) -> Verdict:
    options = (
        PermissionOption("allow_once", "allow_once", "Allow once"),
        PermissionOption("allow_session", "allow_session", f"Allow {grant.covers} in this session"),
        PermissionOption("allow_always", "allow_always", f"Always allow {grant.covers}"),
        PermissionOption("deny", "deny", "Deny"),
    )
    return Verdict("ask", reason, "", options, grant.key)


def _asked_dangerous(dangers: tuple[Danger, ...], grant: Grant) -> Verdict:
    risk = "; ".join(danger.words for danger in dangers)
    options = (
        PermissionOption("deny", "deny", "Deny"),
        PermissionOption("allow_once", "allow_once", "Allow once"),
        PermissionOption("allow_session", "allow_session", f"Allow {grant.covers} in this session"),
    )
    return Verdict("ask", f"it {risk}", risk, options, grant.key)
