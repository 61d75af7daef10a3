"""What begins with a slash: one table of commands, each a function of the chat and the words behind its name."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from hermes_protocol import methods as m
from hermes_protocol.errors import ProtocolError
from hermes_shell.interactive import export, fetching, history, queueing, visiting
from hermes_shell.interactive.chat import Chat
from hermes_shell.interactive.printable import one_line

Action: TypeAlias = Callable[[Chat, str], Awaitable[None]]


class Command(msgspec.Struct, frozen=True):
    """`words` is how its arguments are shown in the help."""

    words: str
    help: str
    action: Action


async def run(chat: Chat, line: str) -> None:
    """Do what `line` (it begins with a slash) says; an unknown name is answered with the nearest one."""
    name, _, rest = line[1:].strip().partition(" ")
    command = COMMANDS.get(name) or COMMANDS.get(ALIASES.get(name, ""))
    if command is None:
        known = await plugin_commands(chat)
        if name in known:
            await _of_plugin(chat, name, rest.strip())
            return
        import difflib

        near = difflib.get_close_matches(name, [*COMMANDS, *known], 1)
        meant = f" Did you mean /{near[0]}?" if near else " /help lists the commands."
        chat.say(f"no command /{one_line(name, 40)}.{meant}", "error")
        return
    await command.action(chat, rest.strip())


def completed(line: str) -> str:
    """`line` with the name of the only command that begins like it filled in, or as far as all of them agree."""
    if not line.startswith("/") or " " in line:
        return line
    names = [name for name in COMMANDS if name.startswith(line[1:])]
    if len(names) == 1:
        return f"/{names[0]} "
    agreed = names[0] if names else line[1:]
    while not all(name.startswith(agreed) for name in names):
        agreed = agreed[:-1]
    return f"/{agreed}"


def plain_message(line: str) -> bool:
    """Whether a line is a message and no command: paths such as /etc/hosts are messages."""
    if not line.startswith("/"):
        return True
    return "/" in line[1:].split(" ", 1)[0].split("\n", 1)[0]


# --- the commands -----------------------------------------------------------------------------------------------------


async def plugin_commands(chat: Chat) -> dict[str, m.CommandRow]:
    """The slash commands of plugins; none from a daemon without plugins. Ours go before theirs."""
    try:
        found = await chat.connection.request("hermes/command/list", None, m.CommandListResult, resend=True)
    except ProtocolError as refused:
        if refused.kind != "method_not_found":
            raise
        return {}
    return {row.name: row for row in found.commands if row.kind == "slash" and row.name not in COMMANDS}


async def _of_plugin(chat: Chat, name: str, arguments: str) -> None:
    params = m.CommandRunParams(name, arguments, session_id=chat.session.session_id)
    done = await chat.connection.request("hermes/command/run", params, m.CommandRunResult)
    text = done.text.rstrip()
    if done.exit_code:
        chat.say(text or f"/{name} failed with {done.exit_code}", "error")
    elif text:
        chat.say(text)


async def _help(chat: Chat, _: str) -> None:
    rows = [(f"/{name} {command.words}".strip(), command.help) for name, command in COMMANDS.items()]
    theirs = await plugin_commands(chat)
    rows += [
        (one_line(f"/{name} {row.args_hint}".strip(), 40), one_line(f"{row.description} ({row.plugin})", 80))
        for name, row in theirs.items()
    ]
    keys = [
        ("Enter", "send; while a turn runs the message is queued"),
        ("Alt-Enter, Ctrl-J", "a new line"),
        ("Ctrl-C", "interrupt the turn; twice leaves"),
        ("Alt-1 to Alt-4", "answer a permission while the line holds text; without text: 1 to 4"),
        ("Alt-A, Esc", "to the open question's line, and back to the message"),
        ("Ctrl-O", "show or hide the last tool call's whole output"),
        ("Ctrl-D", "leave; a running turn goes on"),
        ("Up, Down", "earlier messages"),
    ]
    width = max(len(left) for left, _ in [*rows, *keys])
    chat.say("\n".join(f"  {left:<{width}}  {right}" for left, right in [*rows, *keys]))


async def _model(chat: Chat, word: str) -> None:
    if word:
        await chat.session.set_option("model", word)
        return
    known = await chat.connection.request("hermes/models/list", m.ModelsParams(), m.ModelsResult, resend=True)
    lines = []
    for row in known.models:
        here = "*" if row.id == chat.view.session.model else " "
        notes = [row.state if row.state != "ready" else "", row.note, "" if row.tools else "no tools"]
        lines.append(f"{here} {row.id}  {', '.join(filter(None, notes))}".rstrip())
    lines.append("  /model PROVIDER/NAME takes another one from the next turn on")
    chat.say("\n".join(lines))


async def _tools(chat: Chat, _: str) -> None:
    params = m.ToolListParams(chat.session.session_id)
    rows = (await chat.connection.request("hermes/tool/list", params, m.ToolListResult, resend=True)).tools
    width = max((len(row.name) for row in rows), default=0)
    left = max(20, chat.painter.width() - width - len("    reads    "))
    lines = [
        f"  {row.name:<{width}}  {'reads  ' if row.read_only else 'asks   '}  {one_line(row.description, left)}"
        for row in rows
    ]
    chat.say("\n".join(lines) if lines else "no tools in this session")


async def _compact(chat: Chat, focus: str) -> None:
    params = {"sessionId": chat.session.session_id, **({"focus": focus} if focus else {})}
    try:
        await chat.connection.request("hermes/session/compact", params, dict)
    except ProtocolError as refused:
        if refused.kind != "method_not_found":
            raise
        chat.say("this daemon cannot compact yet: it comes with a later version", "warning")


async def _expand(chat: Chat, word: str) -> None:
    count = len(chat.transcript.calls)
    number = int(word) if word.isdecimal() else (count if not word else 0)
    text = chat.transcript.expanded(chat.view, number)
    if text is None:
        have = f"a number from 1 to {count}" if count else "a tool call, and there was none yet"
        chat.say(f"/expand {one_line(word, 20)}: expected {have}", "error")
        return
    chat.show_piece(text)


async def _rename(chat: Chat, title: str) -> None:
    if not title:
        chat.say("/rename: expected a title", "error")
        return
    await chat.session.rename(title)
    chat.say(f"renamed: {title}")


async def _status(chat: Chat, _: str) -> None:
    status = await chat.connection.request("hermes/daemon/status", None, m.StatusResult, resend=True)
    view = chat.view
    usage = view.session.usage
    rows = [
        ("session", f"{view.session.session_id} {one_line(view.session.title)}".rstrip()),
        ("folder", view.session.cwd),
        ("model", view.session.model),
        ("state", view.state),
        ("tokens", tokens(usage.input_tokens, usage.output_tokens, usage.cost)),
        ("daemon", f"{status.state}, version {status.version}, pid {status.pid}, up {status.uptime_s:,.0f} s"),
        ("connections", ", ".join(row.name or row.client for row in status.connections)),
        ("storage", status.storage),
        *(("warning", warning) for warning in status.warnings),
    ]
    chat.say("\n".join(f"  {name:<11}  {value}" for name, value in rows))


def tokens(read: int, written: int, cost: float | None) -> str:
    """`1,200 in, 40 out, $0.0028`: without the price where none is known."""
    return f"{read:,} in, {written:,} out{'' if cost is None else f', ${cost:.4f}'}"


async def _export(chat: Chat, words: str) -> None:
    form, _, path = words.partition(" ")
    if form not in ("json", "markdown"):
        form, path = ("json" if words.endswith(".json") else "markdown"), words
    session = chat.view.session
    path = path.strip() or f"{session.session_id}.{'json' if form == 'json' else 'md'}"
    path = os.path.join(session.cwd, os.path.expanduser(path))  # noqa: ASYNC240 (reads no disk)
    items = await export.all_items(chat.connection, session.session_id)
    text = export.as_json(session, items) if form == "json" else export.as_markdown(session, items)
    # "x": a transcript never replaces a file that is there.
    with open(path, "x", encoding="utf-8") as file:  # noqa: ASYNC230 (one small local file)
        file.write(text)
    chat.say(f"{len(items)} items written to {path}")


async def _skip(chat: Chat, _: str) -> None:
    if not chat.asking.skip():
        chat.say("there is nothing to leave out: no question is open that has parts", "error")


async def _decline(chat: Chat, _: str) -> None:
    if not chat.asking.decline():
        chat.say("no question is open", "error")


async def _quit(chat: Chat, _: str) -> None:
    chat.leave()


COMMANDS: Mapping[str, Command] = {
    "help": Command("", "this list", _help),
    "new": Command("", "begin a new session in the same folder", visiting.new),
    "sessions": Command("[NUMBER|ID]", "list the sessions, or go to one", visiting.sessions),
    "model": Command("[PROVIDER/NAME]", "list the models, or take one", _model),
    "tools": Command("", "what the model may use here", _tools),
    "attach": Command("[NUMBER|ID]", "list the sessions somebody works in, or join one", visiting.attach),
    "queue": Command("[edit|move|drop|resume …]", "what waits: N TEXT, N TO, N", queueing.queue),
    "steer": Command("TEXT", "words for the turn that runs", queueing.steer),
    "older": Command("[N]", "print what was said before", history.older),
    "rewind": Command("[N]", "take the last N messages back, to write them anew", history.rewind),
    "fork": Command("[TITLE]", "go on in a copy of this session", history.fork),
    "archive": Command("[off]", "take this session out of the lists", history.archive),
    "skip": Command("", "leave out the open question, or this field of a form", _skip),
    "decline": Command("", "do not answer the open question at all", _decline),
    "expand": Command("[N]", "print the whole output of tool call N, or of the last one", _expand),
    "compact": Command("[FOCUS]", "shorten the context", _compact),
    "rename": Command("TITLE", "give the session a title", _rename),
    "pull": Command("[MODEL]", "fetch a model for this machine (smollm2)", fetching.pull),
    "status": Command("", "session and daemon", _status),
    "export": Command("[json|markdown] [PATH]", "write the whole session to a file", _export),
    "quit": Command("", "leave; a running turn goes on", _quit),
}
ALIASES: Mapping[str, str] = {"exit": "quit", "q": "quit", "resume": "sessions", "?": "help"}
