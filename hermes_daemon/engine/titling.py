"""A session's title by a model, where `auxiliary.title` is configured. Without it, and until the model has answered,
the title is the first line of the first message."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from hermes_daemon.core.ports import Request, StorageError
from hermes_daemon.engine.auxiliary import Unanswered, ask
from hermes_daemon.engine.session_row import title_of
from hermes_protocol.content import Message, TextPart

if TYPE_CHECKING:
    from hermes_daemon.engine.session import Session

log = logging.getLogger(__name__)
READ_CHARS: Final = 2_000
MOST_TOKENS: Final = 200
ASKED: Final = """\
You name conversations. Answer with a title of at most six words for the conversation that begins with the text below, \
in the language of the text, without quotes and without a full stop. Do not answer the text itself."""


def wanted(session: Session) -> bool:
    """Whether a model is to name sessions that nobody named."""
    return "title" in session.parts.settings().auxiliary


async def give_title(session: Session, text: str, turn_id: str) -> None:
    """Ask for a title and take it, unless the session was named by somebody meanwhile. A failure is logged only."""
    given = session.row.title
    request = Request("", ASKED, (Message("user", (TextPart(text[:READ_CHARS]),)),), max_output=MOST_TOKENS)
    try:
        reply = await ask("title", request, session, turn_id=turn_id)
        title = clean(reply.message.text)
        if not title:
            log.warning("%s: the model that was asked for a title gave none", session.session_id)
            return
        await session.name(title, given)
    except (Unanswered, StorageError) as problem:
        log.warning("%s: no title: %s", session.session_id, problem)


def clean(answer: str) -> str:
    """The title in what a model said: its first line without quotes and marks, as long as a title may be."""
    first = next((line.strip() for line in answer.splitlines() if line.strip()), "")
    first = first.removeprefix("Title:").strip().strip("#*_`\"'“”„«»").strip().rstrip(".")
    return title_of(first) if first else ""
