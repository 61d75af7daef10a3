"""What a turn wants done next. The engine performs effects in order and feeds back what came of them."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hermes_protocol.content import Message, ToolCall
from hermes_protocol.events import Failure, TurnStatus


class Record(msgspec.Struct, frozen=True):
    """Make this message part of the history, durably, before anything that follows."""

    message: Message


class CallModel(msgspec.Struct, frozen=True):
    """Ask the model. `history` obeys the laws of core.history."""

    history: tuple[Message, ...]
    round: int


class RunTools(msgspec.Struct, frozen=True):
    """Run these calls. `cut`: the model's output was cut, so the last call may be half a call."""

    calls: tuple[ToolCall, ...]
    cut: bool = False


class Compact(msgspec.Struct, frozen=True):
    """Make the history shorter and say how it went."""

    history: tuple[Message, ...]
    trigger: str


class Settle(msgspec.Struct, frozen=True):
    """The model has no calls left: ask whether the draft may stand."""

    draft: Message


class End(msgspec.Struct, frozen=True):
    """The turn is over. Nothing follows."""

    status: TurnStatus
    stop: str
    error: Failure | None = None


Effect: TypeAlias = Record | CallModel | RunTools | Compact | Settle | End
