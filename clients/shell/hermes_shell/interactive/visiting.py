"""/new, /sessions and /attach: from this session to another."""

from __future__ import annotations

from hermes_client import Session
from hermes_protocol import methods as m
from hermes_protocol.events import SessionSummary
from hermes_shell.interactive.chat import Chat
from hermes_shell.interactive.printable import one_line
from hermes_shell.interactive.session_ids import find

SESSIONS_SHOWN = 20


async def new(chat: Chat, _: str) -> None:
    """A new session in the same folder."""
    old = chat.session
    row = old.view.session
    # Modes and tools stay as they are; a model chosen for the old session is one the person wants to talk to.
    options = old.view.options
    made = await Session.create(chat.connection, row.cwd, model=row.model or None, options=options)
    chat.say(f"session {made.session_id}")
    chat.show(made, made=True)
    await old.close()


async def sessions(chat: Chat, word: str) -> None:
    """List the sessions, or go to one."""
    await _go(chat, word, await _rows(chat), "/sessions")


async def attach(chat: Chat, word: str) -> None:
    """As /sessions, but only those that somebody works in now."""
    rows = [row for row in await _rows(chat) if row.state != "idle" or row.clients]
    await _go(chat, word, rows, "/attach")


async def _rows(chat: Chat) -> list[SessionSummary]:
    params = m.ListParams(limit=SESSIONS_SHOWN)
    return list((await chat.connection.request("hermes/session/list", params, m.ListResult, resend=True)).sessions)


async def _go(chat: Chat, word: str, rows: list[SessionSummary], name: str) -> None:
    if not word:
        lines = []
        for number, row in enumerate(rows, 1):
            here = "*" if row.session_id == chat.session.session_id else " "
            title = one_line(row.title, 40) or "(no title)"
            asks = "asks, " * bool(row.open_requests)
            there = f", {row.clients} here" if row.clients else ""
            told = f"{asks}{row.state}{there}"
            lines.append(f"{here}{number:>3}  {row.session_id}  {title}  {told}  {row.updated_at[:16]}  {row.cwd}")
        lines.append(f"  {name} NUMBER or ID goes there")
        chat.say("\n".join(lines))
        return
    by_number = word.isdecimal() and 0 < int(word) <= len(rows)
    session_id = rows[int(word) - 1].session_id if by_number else await find(chat.connection, word)
    if session_id == chat.session.session_id:
        chat.say("this is the session you are in")
        return
    old, opened = chat.session, await Session.open(chat.connection, session_id)
    chat.say(f"session {opened.session_id} {one_line(opened.view.session.title)}")
    chat.show(opened)
    await old.close()
