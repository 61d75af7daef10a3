"""What of a conversation is sent when the window cannot hold it: the last resort where nothing was compacted. Pure.

Whole exchanges go first, the oldest before the others; then the longest results of tools keep their two ends. The
history itself stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hermes_daemon.core.history import cut_points, is_context
from hermes_protocol.content import Message, ToolResult

LEAST_CHARS = 2_000
"""A result is not cut below this: its two ends would say nothing any more."""


class Fitted(msgspec.Struct, frozen=True):
    """The messages to send, how many of the oldest were left out, and how many results were cut."""

    messages: tuple[Message, ...]
    left_out: int = 0
    cut: int = 0


def fit(messages: tuple[Message, ...], room: float, size_of: Callable[[Message], int]) -> Fitted:
    """As much as has room; `room` and sizes are in one unit. What cannot be made to fit comes as small as it gets."""
    left = sum(map(size_of, messages))
    if left <= room:
        return Fitted(messages)
    cuts = [
        cut
        for cut in cut_points(messages)[:-1]
        if cut < len(messages) and messages[cut].role == "user" and not is_context(messages, cut)
    ]
    dropped = 0
    for cut in cuts:
        if left <= room:
            break
        left -= sum(map(size_of, messages[dropped:cut]))
        dropped = cut
    return _with_short_results(messages[dropped:], left - room, size_of, dropped)


def _with_short_results(
    messages: tuple[Message, ...], excess: float, size_of: Callable[[Message], int], dropped: int
) -> Fitted:
    """The longest results first, each to what is needed or to LEAST_CHARS."""
    kept = list(messages)
    order = sorted(range(len(kept)), key=lambda place: -_result_chars(kept[place]))
    cut = 0
    for place in order:
        chars = _result_chars(kept[place])
        if excess <= 0 or chars <= LEAST_CHARS:
            break
        before = size_of(kept[place])
        wanted = max(LEAST_CHARS, int(chars * (1 - excess / max(before, 1))) - 200)
        kept[place] = _shortened(kept[place], wanted)
        excess -= before - size_of(kept[place])
        cut += 1
    return Fitted(tuple(kept), dropped, cut)


def _result_chars(message: Message) -> int:
    return sum(len(result.text) for result in message.results)


def _shortened(message: Message, chars: int) -> Message:
    parts = tuple(_both_ends(part, chars) if isinstance(part, ToolResult) else part for part in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def _both_ends(result: ToolResult, chars: int) -> ToolResult:
    text = result.text
    head = chars * 2 // 5
    missing = len(text) - chars
    told = f"\n[{missing:,} characters are left out here: the model's window is too small for them]\n"
    return msgspec.structs.replace(result, text=text[:head] + told + text[len(text) - (chars - head) :])
