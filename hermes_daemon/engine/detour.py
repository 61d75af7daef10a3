"""How a round goes on when its model call has failed for good: a shorter request to the same model, or another model.

Only the round's own call is made otherwise. No tool of it has run yet, so nothing is done twice; what was shown of the
failed call is taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from hermes_daemon.core import window
from hermes_daemon.core.ports import ModelInfo, ProviderFailure, Refused, Request

if TYPE_CHECKING:
    from hermes_daemon.engine.runner import Runner

ELSEWHERE: Final = frozenset(
    {"auth", "quota", "rate", "overload", "network", "stall", "malformed", "incomplete", "model_missing", "local"}
)
"""Failures of an endpoint. Those of the request (bad_request) would follow it to any other, and a filter is not to be
evaded."""
SHRINK: Final = 0.7
"""How much of a request is kept that an endpoint refused as too long without naming its limit."""


class Detour(msgspec.Struct, frozen=True):
    """`model` is the id to ask, `room` how many tokens its request may have (None: what its window holds), `told` the
    sentence for people."""

    model: str
    told: str
    room: int | None = None


def detour(runner: Runner, model: ModelInfo, request: Request, failure: ProviderFailure) -> Detour | None:
    """The way on after a failure that is not tried again, or None. A request is made shorter once a turn; each of the
    models under model.fallbacks is asked once a turn, in their order."""
    if failure.kind == "context_overflow":
        return _shorter(runner, model, request) or _larger(runner, model)
    if failure.kind not in ELSEWHERE:
        return None
    return _other(runner, model, least_window=0)


def _shorter(runner: Runner, model: ModelInfo, request: Request) -> Detour | None:
    """The same model, by the window that its refusal may have named."""
    if model.id in runner.shortened:
        return None
    session = runner.session
    try:
        _, known = session.parts.models.resolve(model.id)
    except Refused:
        return None
    sizes = sum(map(session.estimates.size_of, request.messages))
    fixed = window.request_tokens((), request.system, request.tools)
    estimated = session.estimates.calibration(model.id).tokens(sizes + fixed)
    room = window.input_room(known.context_length, request.max_output)
    if estimated <= room:  # it was refused all the same: our estimate is off, or the window is not what it says
        room = int(estimated * SHRINK)
    if session.estimates.calibration(model.id).tokens(fixed) >= room:
        return None
    runner.shortened.add(model.id)
    return Detour(model.id, f"The request was too long for {model.id}; it is sent again with less in it.", room)


def _larger(runner: Runner, model: ModelInfo) -> Detour | None:
    return _other(runner, model, least_window=model.context_length + 1)


def _other(runner: Runner, model: ModelInfo, least_window: int) -> Detour | None:
    """The next of the fallbacks that exists and was not asked in this turn."""
    runner.failed_models.add(model.id)
    models = runner.session.parts.models
    for wanted in runner.session.parts.settings().model.fallbacks:
        try:
            _, found = models.resolve(wanted)
        except Refused:
            continue  # `hermes models` and the configuration tell of it; the next one may do
        if found.id not in runner.failed_models and found.context_length >= least_window:
            return Detour(found.id, f"{model.id} failed; this turn goes on with {found.id} (model.fallbacks).")
    return None
