"""The turn as a pure machine: facts in, effects out.

Laws (tests/core/test_turn.py): every call is answered exactly once; nothing follows End; steering lands before the
next model call; a history handed to CallModel is one that every provider accepts. Approval, retries, time-outs and
deltas are not here: to the turn an approval is a slow tool and a retry a slow model.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from hermes_daemon.core.effects import CallModel, Compact, Effect, End, Record, RunTools, Settle
from hermes_daemon.core.facts import (
    Accepted,
    Began,
    Compacted,
    Fact,
    Interrupted,
    ModelFailed,
    ModelReplied,
    SentBack,
    Steered,
    ToolReturned,
)
from hermes_protocol.content import Message, ToolResult
from hermes_protocol.events import Failure

Phase: TypeAlias = Literal["new", "thinking", "acting", "compacting", "settling", "over"]

INTERRUPTED_CALL = "The user interrupted the turn before this call finished. Whether it had any effect is unknown."


class TurnError(Exception):
    """A fact that does not fit the phase: a bug of whoever fed it."""


class Turn:
    """One user turn. `feed` is the only way to change it."""

    def __init__(self, max_rounds: int, *, can_compact: bool = False) -> None:
        self.phase: Phase = "new"
        self.round = 0
        self._max_rounds = max_rounds
        self._can_compact = can_compact
        self._overflow: Failure | None = None
        self._history: list[Message] = []
        self._waiting: dict[str, int] = {}
        self._steers: list[Message] = []

    @property
    def history(self) -> tuple[Message, ...]:
        """Everything recorded so far."""
        return tuple(self._history)

    @property
    def steers(self) -> tuple[Message, ...]:
        """Steering that no model call has taken yet; after End it belongs to the next turn."""
        return tuple(self._steers)

    def feed(self, fact: Fact) -> list[Effect]:
        """What is to be done now. A fact that comes after the end is ignored."""
        if self.phase == "over":
            return []
        match fact:
            case Began():
                return self._began(fact)
            case Steered():
                self._expect(fact, "thinking", "acting", "settling", "compacting")
                self._steers.append(fact.message)
                return []
            case Interrupted():
                return self._interrupted(fact)
            case ModelReplied():
                return self._replied(fact)
            case ModelFailed():
                return self._failed(fact)
            case ToolReturned():
                return self._returned(fact)
            case Compacted():
                return self._compacted(fact)
            case Accepted():
                self._expect(fact, "settling")
                return self._end(End("completed", "end_turn"))
            case SentBack():
                self._expect(fact, "settling")
                return [self._record(fact.message), *self._call_model()]

    def _began(self, fact: Began) -> list[Effect]:
        self._expect(fact, "new")
        self._history = list(fact.history)
        return self._call_model()

    def _replied(self, fact: ModelReplied) -> list[Effect]:
        self._expect(fact, "thinking")
        effects: list[Effect] = [self._record(fact.message)] if fact.message.parts else []
        calls = fact.message.calls
        if calls:
            self.phase = "acting"
            for call in calls:
                self._waiting[call.call_id] = self._waiting.get(call.call_id, 0) + 1
            return [*effects, RunTools(calls, cut=fact.stop == "length")]
        if fact.stop == "length":
            return [*effects, *self._end(End("limit", "max_tokens"))]
        if fact.stop == "refusal":
            return [*effects, *self._end(End("refused", "refusal"))]
        self.phase = "settling"
        return [*effects, Settle(fact.message)]

    def _failed(self, fact: ModelFailed) -> list[Effect]:
        self._expect(fact, "thinking")
        effects: list[Effect] = [self._record(fact.partial)] if fact.partial else []
        if fact.failure.kind == "context_overflow" and self._can_compact and not effects:
            self._can_compact = False
            self._overflow = fact.failure
            self.phase = "compacting"
            return [Compact(self.history, "overflow")]
        status: Literal["refused", "failed"] = "refused" if fact.failure.kind == "content_filter" else "failed"
        return [*effects, *self._end(End(status, fact.failure.kind, fact.failure))]

    def _returned(self, fact: ToolReturned) -> list[Effect]:
        if fact.call_id not in self._waiting:
            if self._was_answered(fact.call_id):
                return []
            raise TurnError(f"a result for the unknown call {fact.call_id!r} while {self.phase}")
        effects = [self._answer(fact.call_id, fact.text, fact.is_error)]
        if self._waiting:
            return effects
        return [*effects, *self._call_model()]

    def _interrupted(self, fact: Interrupted) -> list[Effect]:
        effects: list[Effect] = [self._record(fact.partial)] if fact.partial and self.phase == "thinking" else []
        while self._waiting:
            effects.append(self._answer(next(iter(self._waiting)), INTERRUPTED_CALL, True))
        return [*effects, *self._end(End("interrupted", fact.reason))]

    def _compacted(self, fact: Compacted) -> list[Effect]:
        self._expect(fact, "compacting")
        self._history = list(fact.history)
        if not fact.shorter:
            return self._end(End("failed", "context_overflow", self._overflow))
        return self._call_model()

    def _call_model(self) -> list[Effect]:
        """Steering first, then the next round, unless the rounds are used up."""
        if self.round >= self._max_rounds:
            return self._end(End("limit", "max_rounds"))
        effects: list[Effect] = [self._record(message) for message in self._steers]
        self._steers.clear()
        self.round += 1
        self.phase = "thinking"
        return [*effects, CallModel(self.history, self.round)]

    def _answer(self, call_id: str, text: str, is_error: bool) -> Effect:
        left = self._waiting[call_id] - 1
        if left:
            self._waiting[call_id] = left
        else:
            del self._waiting[call_id]
        return self._record(Message("tool", (ToolResult(call_id, text, is_error),)))

    def _record(self, message: Message) -> Effect:
        self._history.append(message)
        return Record(message)

    def _end(self, end: End) -> list[Effect]:
        self.phase = "over"
        return [end]

    def _was_answered(self, call_id: str) -> bool:
        return any(result.call_id == call_id for message in self._history for result in message.results)

    def _expect(self, fact: Fact, *phases: Phase) -> None:
        if self.phase not in phases:
            raise TurnError(f"{type(fact).__name__} does not fit the phase {self.phase!r}")
