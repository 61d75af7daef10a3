"""Questions that have ended: who comes late is told how, also after the session left memory or the daemon restarted."""

from __future__ import annotations

from typing import Final

import msgspec

from hermes_protocol.content import By
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import Outcome

KEPT: Final = 10_000
_WORDS: Final[dict[str, str]] = {
    "timeout": "nobody answered it in time",
    "interrupted": "its turn was interrupted",
    "lost": "who waited for the answer is gone",
    "policy": "nobody was there to answer it, or everyone declined",
    "declined": "it was declined",
}


class Ending(msgspec.Struct, frozen=True):
    """How a question of a session ended. Never what was answered."""

    session_id: str
    outcome: Outcome
    by: By | None = None


class Resolved:
    """The last questions that ended, of all sessions of a daemon."""

    def __init__(self) -> None:
        self._endings: dict[str, Ending] = {}

    def add(self, request_id: str, ending: Ending) -> None:
        """Remember one; the oldest are forgotten."""
        self._endings[request_id] = ending
        if len(self._endings) > KEPT:
            del self._endings[next(iter(self._endings))]

    def session_of(self, request_id: str) -> str | None:
        """The session of a question that ended."""
        ending = self._endings.get(request_id)
        return ending.session_id if ending is not None else None

    def gone(self, request_id: str) -> ProtocolError:
        """already_resolved with outcome and by, or request_not_found."""
        ending = self._endings.get(request_id)
        if ending is None:
            return ProtocolError("request_not_found", f"no request {request_id}")
        return already(ending.outcome, ending.by)


def already(outcome: str, by: By | None) -> ProtocolError:
    """already_resolved in words."""
    who = f"{by.name or by.client_id} already answered: {outcome}" if by is not None else "it ended without an answer"
    words = _WORDS.get(outcome, who)
    return ProtocolError("already_resolved", f"the request is over: {words}", outcome=outcome,
                         by=msgspec.to_builtins(by) if by is not None else None)  # fmt: skip
