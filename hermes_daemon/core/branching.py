"""Which messages stand for the first items of a conversation: where it is taken back, or goes on in another session.

People choose an item; a model reads messages. One assistant message may have made several items (text and calls), so
a cut between them leaves a part of it: the text without the calls that are gone, the calls that are left with their
results. What comes out keeps the laws of core.history when what went in does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from hermes_protocol.content import Message, ToolCall
from hermes_protocol.events import AgentMessage, AnyItem, ToolCallItem, UserMessage


class Cut(msgspec.Struct, frozen=True):
    """The first `messages` messages stay as they are, `tail` stands behind them."""

    messages: int
    tail: tuple[Message, ...] = ()


def cut(messages: Sequence[Message], segment: Sequence[AnyItem], kept: int) -> Cut:
    """The messages that the first `kept` items of a segment, and everything before it, stand for.

    A segment is a UserMessage and the completed items behind it up to the next one; the one before the first
    UserMessage has none. LookupError when the message of its UserMessage is not in the history.
    """
    if not segment or not isinstance(segment[0], UserMessage):
        return Cut(_next_user(messages, 0))
    asked = segment[0].item_id
    start = next((at for at, message in enumerate(messages) if message.role == "user" and message.item_id == asked), -1)
    if start < 0:
        raise LookupError(asked)
    end = _next_user(messages, start + 1)
    return _Walk(messages, segment, kept).run(start + 1, end)


def _next_user(messages: Sequence[Message], at: int) -> int:
    """The index of the next message of a user; what policies sent back in their name has no item."""
    while at < len(messages) and not (messages[at].role == "user" and messages[at].item_id is not None):
        at += 1
    return at


class _Walk:
    """One pass over the messages of a segment, beside its items: both are in the order in which they began."""

    def __init__(self, messages: Sequence[Message], segment: Sequence[AnyItem], kept: int) -> None:
        self._messages = messages
        self._whole = kept >= len(segment)
        self._kept = {item.item_id for item in segment[:kept]}
        self._texts = deque(item for item in segment if isinstance(item, AgentMessage))
        self._calls: dict[str, deque[str]] = {}
        for item in segment:
            if isinstance(item, ToolCallItem):
                self._calls.setdefault(item.call_id, deque()).append(item.item_id)

    def run(self, start: int, end: int) -> Cut:
        """`end` is behind the last message of the segment."""
        sure = at = start
        while at < end:
            message = self._messages[at]
            behind = at + 1
            while behind < end and self._messages[behind].role == "tool":
                behind += 1
            if message.role != "assistant":
                at += 1  # stays when something behind it stays
                continue
            shown, left = self._shown(message), self._left(message, self._messages[at + 1 : behind])
            if shown is False or len(left) < len(message.calls):
                part = self._part(at, behind, left, text=shown is not False)
                return Cut(sure, (*self._messages[sure:at], *part) if part else ())
            if shown or left:
                sure = behind
            at = behind
        return Cut(end if self._whole else sure)

    def _shown(self, message: Message) -> bool | None:
        """Whether the item of this text is kept; None when there is no text, or no item for it."""
        if not message.text.strip() or not self._texts:
            return None
        while len(self._texts) > 1 and self._texts[0].text != message.text and self._is_further(message.text):
            self._texts.popleft()  # shown, and never recorded
        return self._texts.popleft().item_id in self._kept

    def _is_further(self, text: str) -> bool:
        return any(item.text == text for item in self._texts)

    def _left(self, message: Message, behind: Sequence[Message]) -> list[str]:
        """The ids of the calls that are kept and answered."""
        answered = {result.call_id for row in behind for result in row.results}
        left = []
        for call in message.calls:
            items = self._calls.get(call.call_id)
            shown = items.popleft() in self._kept if items else self._whole
            if shown and call.call_id in answered:
                left.append(call.call_id)
        return left

    def _part(self, at: int, behind: int, left: list[str], *, text: bool) -> tuple[Message, ...]:
        """What is left of an assistant message and its results; nothing when that would be thoughts alone."""
        message = self._messages[at]
        if not left and not (text and message.text.strip()):
            return ()
        parts = tuple(part for part in message.parts if not isinstance(part, ToolCall) or part.call_id in left)
        results = (row for row in self._messages[at + 1 : behind] if any(one.call_id in left for one in row.results))
        return (msgspec.structs.replace(message, parts=parts), *results)
