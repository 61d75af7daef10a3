"""Where the time of a turn goes. Measured in every turn (a look at the clock costs less than asking whether to);
facts are made of it only when somebody wants them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from hermes_daemon.core.ports import Clock
from hermes_daemon.core.telemetry import TurnMeasured
from hermes_protocol.content import Usage
from hermes_protocol.events import TurnEnded

Part: TypeAlias = Literal["prompt", "middleware", "journal"]


class Meter:
    """The clock of one turn. Seconds everywhere; `queued_s` is what it waited before it began."""

    def __init__(self, clock: Clock, queued_s: float = 0.0) -> None:
        self.now = clock.monotonic
        self.queued_s = queued_s
        self.began = self.now()
        self.first_token: float | None = None
        self.spent: dict[str, float] = dict.fromkeys(("prompt", "model", "approval", "middleware", "journal"), 0.0)
        self.tool_calls = 0
        self._tools_s = 0.0
        self._running = 0
        self._running_since = 0.0

    def during(self, part: Part) -> During:
        """`with meter.during("journal"):` adds what the block takes."""
        return During(self, part)

    def wrapped(self, began: float, inner_s: float) -> None:
        """Middleware was around something since `began`; the thing itself took `inner_s`."""
        self.spent["middleware"] += max(0.0, self.now() - began - inner_s)

    def token_came(self) -> float:
        """Text or reasoning is there. Gives the time."""
        now = self.now()
        if self.first_token is None:
            self.first_token = now - self.began
        return now

    def tool_began(self) -> float:
        """A tool runs; calls side by side are counted once. Gives the time."""
        now = self.now()
        if not self._running:
            self._running_since = now
        self._running += 1
        return now

    def tool_ended(self) -> None:
        """A tool has come back."""
        self._running -= 1
        if not self._running:
            self._tools_s += self.now() - self._running_since

    def measured(self, ended: TurnEnded, model: str) -> TurnMeasured:
        """The fact of a turn that ended like this, now."""
        usage, spent = ended.usage or Usage(), self.spent
        return TurnMeasured(
            status=ended.status,
            error=ended.error.kind if ended.error is not None else "",
            model=model,
            failed=ended.status == "failed",
            rounds=ended.turns.model,
            deterministic_rounds=ended.turns.deterministic,
            tool_calls=self.tool_calls,
            queue_ms=ms(self.queued_s),
            prompt_ms=ms(spent["prompt"]),
            first_token_ms=None if self.first_token is None else ms(self.first_token),
            model_ms=ms(spent["model"]),
            tools_ms=ms(self._tools_s),
            approval_ms=ms(spent["approval"]),
            middleware_ms=ms(spent["middleware"]),
            journal_ms=ms(spent["journal"]),
            total_ms=ms(self.now() - self.began),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cost=usage.cost,
        )


class During:
    """Adds the duration of a block to a part of the turn's time; middleware inside another part is left out of it."""

    __slots__ = ("_began", "_meter", "_middleware", "_part")

    def __init__(self, meter: Meter, part: Part) -> None:
        self._meter, self._part = meter, part

    def __enter__(self) -> None:
        self._middleware = self._meter.spent["middleware"]
        self._began = self._meter.now()

    def __exit__(self, *_: object) -> None:
        meter = self._meter
        inner = meter.spent["middleware"] - self._middleware if self._part == "prompt" else 0.0
        meter.spent[self._part] += max(0.0, meter.now() - self._began - inner)


def ms(seconds: float) -> float:
    """Milliseconds with three decimals."""
    return round(seconds * 1000, 3)


def seconds_between(earlier: str, later: str) -> float:
    """Seconds between two times as `Clock.now` gives them; 0 when one is missing or the clock was set back."""
    try:
        return max(0.0, (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds())
    except ValueError:
        return 0.0
