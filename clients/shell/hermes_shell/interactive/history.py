"""/older, /rewind, /fork and /archive: the session's past, and other ways on from it."""

from __future__ import annotations

from hermes_protocol import methods as m
from hermes_protocol.content import input_text
from hermes_protocol.events import UserMessage
from hermes_shell.interactive.chat import Chat
from hermes_shell.interactive.printable import one_line

OLDER = 30


async def older(chat: Chat, word: str) -> None:
    """Print the items before those that were shown."""
    if word and not (word.isdecimal() and int(word) > 0):
        chat.say(f"/older {one_line(word, 20)}: expected how many, a number from 1", "error")
        return
    before = chat.older_cursor
    if before is None:
        chat.say("everything this session holds was shown")
        return
    params = m.ItemsParams(chat.session.session_id, before=before, limit=int(word or OLDER), order="desc")
    page = await chat.connection.request("hermes/session/items", params, m.ItemsResult, resend=True)
    items = tuple(reversed(page.items))
    chat.older_cursor = items[0].item_id if items and page.next_cursor is not None else None
    chat.say(f"── {len(items)} earlier items ──")
    for piece in chat.transcript.earlier(items):
        chat.show_piece(piece)
    chat.say(f"── end of the earlier items{'; /older shows more' if chat.older_cursor else ''} ──")


async def rewind(chat: Chat, word: str) -> None:
    """Take the last message back, or the last N, with everything behind it; its words stand in the input line."""
    asked = [item for item in chat.view.items if isinstance(item, UserMessage)]
    number = int(word) if word.isdecimal() else (1 if not word else 0)
    if not 0 < number <= len(asked):
        have = f"a number from 1 to {len(asked)}" if asked else "a message, and there is none"
        chat.say(f"/rewind {one_line(word, 20)}: expected {have}", "error")
        return
    result = await chat.session.rewind(asked[-number].item_id)
    chat.restore(input_text(result.input or asked[-number].input))


async def fork(chat: Chat, title: str) -> None:
    """Go on in a new session that begins with what this one holds."""
    old = chat.session
    made = await old.fork(title=title or None)
    chat.say(f"session {made.session_id}, forked from {old.session_id}")
    chat.show(made)
    await old.close()


async def archive(chat: Chat, word: str) -> None:
    """Take this session out of the lists, or put it back."""
    if word not in ("", "off"):
        chat.say(f"/archive {one_line(word, 20)}: expected nothing, or `off` to put it back", "error")
        return
    await chat.session.archive(word != "off")
    told = "archived: lists leave it out; /archive off puts it back"
    chat.say(told if word != "off" else "back in the lists")
