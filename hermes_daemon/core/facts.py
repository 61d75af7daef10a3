"""What can happen to a turn. Facts go into `Turn.feed`; nothing else changes a turn."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hermes_daemon.core.ports import Stop
from hermes_protocol.content import Message
from hermes_protocol.events import Failure


class Began(msgspec.Struct, frozen=True):
    """The turn was admitted; `history` ends with the user's message, which is already recorded."""

    history: tuple[Message, ...]


class ModelReplied(msgspec.Struct, frozen=True):
    """A round gave its message. `stop` "length" means that it was cut."""

    message: Message
    stop: Stop


class ModelFailed(msgspec.Struct, frozen=True):
    """A round failed for good (retries are used up). `partial` is what people already saw of it."""

    failure: Failure
    partial: Message | None = None


class ToolReturned(msgspec.Struct, frozen=True):
    """One call has its answer."""

    call_id: str
    text: str
    is_error: bool = False


class Steered(msgspec.Struct, frozen=True):
    """The user added something while the turn ran."""

    message: Message


class Interrupted(msgspec.Struct, frozen=True):
    """Someone stopped the turn. `partial` is what the running round had said."""

    partial: Message | None = None
    reason: str = "interrupted"


class Compacted(msgspec.Struct, frozen=True):
    """The history was made shorter (or, when it could not be, is the same)."""

    history: tuple[Message, ...]
    shorter: bool


class Accepted(msgspec.Struct, frozen=True):
    """The draft stands: nobody wants another round."""


class SentBack(msgspec.Struct, frozen=True):
    """Somebody wants another round and says why."""

    message: Message


Fact: TypeAlias = (
    Began | ModelReplied | ModelFailed | ToolReturned | Steered | Interrupted | Compacted | Accepted | SentBack
)
