"""The marker: the one row that carries the live summary, made from its data."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_daemon.core.compaction.context import Memory
from hermes_daemon.core.compaction.identifiers import index
from hermes_daemon.core.compaction.limits import Limits
from hermes_daemon.core.compaction.rows import Row, written
from hermes_daemon.core.compaction.source import clip
from hermes_daemon.core.window import text_tokens

OPENING = (
    "[Summary of the earlier part of this session. For reference: what it tells was already asked and done. "
    "Full rows can be read back with session_search.]"
)
CLOSING = "[End of the summary. Only messages after this line are new.]"
USERS = "Messages of the user from the summarized part, word for word, newest first:"
INDEX = "Exact names from the summarized part: "
RESTATED = "[The request below is still being worked on; the summary above says how far it is.]"
ONE_TEXT = 4_000  # most tokens of one quoted user text


def marker(memory: Memory, limits: Limits, readable: str = "") -> Row:
    """The marker's row. `readable` is text the model has beside it (kept user rows), not repeated in the index."""
    lines = [OPENING, "", memory.summary]
    quoted = quotations(memory)
    if quoted:
        lines += ["", USERS, *quoted]
    names = index(
        memory.mentions, "\n".join((memory.summary, *memory.users, readable)), limits.index(memory.folded_tokens)
    )
    if names:
        lines += ["", INDEX + " · ".join(names)]
    lines += ["", CLOSING]
    return written("assistant", "\n".join(lines), "summary")


def quotations(memory: Memory) -> list[str]:
    """The user texts a marker quotes, newest first, and a visible line for those it cannot."""
    lines = [f"<user>\n{text}\n</user>" for text in reversed(memory.users)]
    if memory.users_left_out:
        lines.append(f"[{memory.users_left_out} older messages of the user are not quoted; session_search finds them.]")
    return lines


def fitted(texts: Sequence[str], left_out: int, budget: int) -> tuple[tuple[str, ...], int]:
    """The newest of the texts (oldest first) that fit into `budget` tokens, and how many are left out now.

    A text larger than `ONE_TEXT` or than half the budget keeps its head and tail around a visible note.
    """
    kept: list[str] = []
    used = 0
    for text in reversed(texts):
        size = text_tokens(text)
        most = min(ONE_TEXT, budget // 2)
        if size > most:
            share = int(len(text) * most / size)
            text = clip(text, share, share * 2 // 3, share // 4)
            size = text_tokens(text)
        if used + size > budget:
            break
        kept.append(text)
        used += size
    return tuple(reversed(kept)), left_out + len(texts) - len(kept)
