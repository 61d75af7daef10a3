"""/queue and /steer: what waits for its turn, and words for the turn that runs."""

from __future__ import annotations

from hermes_protocol.content import input_text
from hermes_protocol.events import QueueEntry
from hermes_shell.interactive.chat import Chat
from hermes_shell.interactive.printable import one_line

EXPECTED = "nothing, `edit N TEXT`, `move N TO`, `drop N` or `resume`"


async def queue(chat: Chat, words: str) -> None:
    """List, edit, move, drop, resume. Numbers are those of the list; a change made by others meanwhile is refused."""
    verb, _, rest = words.partition(" ")
    if not verb:
        _list(chat)
    elif verb == "resume":
        await chat.session.queue.resume()
    elif verb in ("edit", "move", "drop", "remove"):
        number, _, more = rest.strip().partition(" ")
        entry = _entry(chat, number)
        if entry is not None:
            await _change(chat, verb, entry, more.strip())
    else:
        chat.say(f"/queue {one_line(words, 40)}: expected {EXPECTED}", "error")


async def _change(chat: Chat, verb: str, entry: QueueEntry, more: str) -> None:
    rev = chat.view.queue_rev
    if verb == "edit":
        if not more:
            chat.say("/queue edit N TEXT: expected the words to put in its place", "error")
            return
        await chat.session.queue.update(entry.queue_id, more, expect_rev=rev)
        chat.say(f"changed: {one_line(more)}")
    elif verb == "move":
        order = [one.queue_id for one in chat.view.queue if one.queue_id != entry.queue_id]
        if not more.isdecimal() or not 0 < int(more) <= len(order) + 1:
            chat.say(f"/queue move N TO: expected TO from 1 to {len(order) + 1}, got {one_line(more, 20)!r}", "error")
            return
        order.insert(int(more) - 1, entry.queue_id)
        await chat.session.queue.reorder(order, expect_rev=rev)
        _list(chat)
    else:
        await chat.session.queue.remove(entry.queue_id, expect_rev=rev)
        chat.say(f"removed: {one_line(input_text(entry.input))}")


def _entry(chat: Chat, number: str) -> QueueEntry | None:
    waiting = chat.view.queue
    if number.isdecimal() and 0 < int(number) <= len(waiting):
        return waiting[int(number) - 1]
    have = f"a number from 1 to {len(waiting)}" if waiting else "an entry, and nothing is queued"
    chat.say(f"/queue: expected {have}, got {one_line(number, 20)!r}", "error")
    return None


def _list(chat: Chat) -> None:
    view = chat.view
    if not view.queue:
        chat.say("nothing is queued")
        return
    lines = []
    for number, entry in enumerate(view.queue, 1):
        who = chat.painter.who(entry.by)
        told = ", ".join(filter(None, ("steers the running turn" * (entry.kind == "steer"), who * (who != "you"))))
        lines.append(f"{number:>3}  {one_line(input_text(entry.input), 100)}{f'  ({told})' if told else ''}")
    if view.paused:
        lines.append("  the queue is paused; /queue resume goes on")
    chat.say("\n".join(lines))


async def steer(chat: Chat, text: str) -> None:
    """Words for the running turn; its next model call reads them."""
    if not text:
        chat.say("/steer: expected the words for the running turn", "error")
    elif chat.view.turn is None:
        chat.say("no turn is running; send it as a message", "error")
        chat.restore(text)
    else:
        await chat.session.steer(text, turn_id=chat.view.turn.turn_id)
