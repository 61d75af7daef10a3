"""Where a conversation is cut: any item, and the history that is left is one that every provider takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.branching import Cut, cut
from hermes_daemon.core.history import check
from hermes_protocol.content import Message, ReasoningPart, TextBlock, TextPart, ToolCall, ToolResult
from hermes_protocol.events import AgentMessage, AnyItem, FileChange, Reasoning, ToolCallItem, UserMessage

AT = "2026-03-01T12:00:00.000Z"


class Talk:
    """A conversation with its items, made like the engine makes them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.items: list[AnyItem] = []
        self._next = 0

    def _id(self, kind: str) -> str:
        self._next += 1
        return f"{kind}{self._next}"

    def asks(self, text: str = "please") -> None:
        item_id = self._id("user")
        self.items.append(UserMessage(item_id=item_id, status="completed", created_at=AT, input=(TextBlock(text),),
                                      text=text))  # fmt: skip
        self.messages.append(Message("user", (TextPart(text),), item_id=item_id))

    def sends_back(self) -> None:
        self.messages.append(Message("user", (TextPart("verify it first"),)))

    def replies(self, text: str = "", *, thinks: bool = False, calls: int = 0, order: bool = True) -> None:
        parts: list[Any] = []
        if thinks:
            parts.append(ReasoningPart("hm"))
            self.items.append(Reasoning(item_id=self._id("thought"), status="completed", created_at=AT, text="hm",
                                        model="m"))  # fmt: skip
        if text:
            parts.append(TextPart(text))
            self.items.append(AgentMessage(item_id=self._id("said"), status="completed", created_at=AT, text=text,
                                           model="m"))  # fmt: skip
        made = [ToolCall(self._id("c"), "look", "{}") for _ in range(calls)]
        self.messages.append(Message("assistant", (*parts, *made)))
        for call in made:
            self.items.append(ToolCallItem(item_id="of-" + call.call_id, status="completed", created_at=AT,
                                           call_id=call.call_id, name="look", title="look", args="{}"))  # fmt: skip
        for call in made if order else reversed(made):
            self.messages.append(Message("tool", (ToolResult(call.call_id, "seen"),)))
            self.items.append(FileChange(item_id=self._id("file"), status="completed", created_at=AT, path="/a",
                                         kind="modified"))  # fmt: skip

    def segment(self, at: int) -> tuple[list[AnyItem], int]:
        """The segment of the item at this place, and how many of its items are kept."""
        starts = [n for n, item in enumerate(self.items) if isinstance(item, UserMessage)]
        start = max(n for n in starts if n <= at)
        end = min([n for n in starts if n > at] or [len(self.items)])
        return self.items[start:end], at + 1 - start

    def cut(self, at: int) -> list[Message]:
        found = cut(self.messages, *self.segment(at))
        return [*self.messages[: found.messages], *found.tail]


ROUND = st.tuples(st.sampled_from(["", "well", "so"]), st.booleans(), st.integers(0, 3), st.booleans())
TURN = st.tuples(st.lists(ROUND.filter(lambda r: bool(r[0] or r[2])), max_size=4), st.booleans())


def talk(turns: list[Any]) -> Talk:
    made = Talk()
    for rounds, sent_back in turns:
        made.asks()
        for text, thinks, calls, order in rounds:
            made.replies(text, thinks=thinks, calls=calls, order=order)
            if sent_back:
                made.sends_back()
    return made


@given(st.lists(TURN, min_size=1, max_size=4), st.data())
def test_a_history_cut_at_any_item_keeps_the_laws_and_shows_what_the_items_show(turns: list[Any], data: Any) -> None:
    made = talk(turns)
    assert check(made.messages) == []
    at = data.draw(st.integers(0, len(made.items) - 1))
    left, kept = made.cut(at), made.items[: at + 1]
    assert check(left) == []
    calls = [call.call_id for message in left for call in message.calls]
    assert calls == [item.call_id for item in kept if isinstance(item, ToolCallItem)]
    texts = [message.text for message in left if message.role == "assistant" and message.text]
    assert texts == [item.text for item in kept if isinstance(item, AgentMessage)]
    assert sum(message.item_id is not None for message in left) == sum(isinstance(i, UserMessage) for i in kept)


@given(st.lists(TURN, min_size=1, max_size=4))
def test_a_history_cut_at_its_last_item_is_whole(turns: list[Any]) -> None:
    made = talk(turns)
    assert made.cut(len(made.items) - 1) == made.messages


def test_a_call_without_its_result_is_left_out_while_a_turn_runs() -> None:
    made = Talk()
    made.asks()
    made.replies("two things", calls=2)
    missing = made.messages.pop()
    left = made.cut(len(made.items) - 1)
    assert check(left) == []
    assert missing.results[0].call_id not in {call.call_id for message in left for call in message.calls}
    assert left[1].text == "two things"


def test_what_a_policy_sent_back_stays_only_before_an_answer_that_stays() -> None:
    made = Talk()
    made.asks()
    made.replies("done")
    made.sends_back()
    made.replies("really done")
    assert [m.text for m in made.cut(1)] == ["please", "done"]
    assert [m.text for m in made.cut(2)] == ["please", "done", "verify it first", "really done"]


def test_a_text_that_was_shown_and_not_recorded_does_not_shift_the_others() -> None:
    made = Talk()
    made.asks()
    made.items.append(AgentMessage(item_id="shown", status="partial", created_at=AT, text="half a", model="m"))
    made.replies("whole", calls=1)
    made.replies("the end")
    assert [m.text for m in made.cut(2) if m.role == "assistant"] == ["whole"]


def test_items_before_the_first_message_stand_for_no_message() -> None:
    made = Talk()
    made.asks()
    notice = FileChange(item_id="f", status="completed", created_at=AT, path="/a", kind="created")
    assert cut(made.messages, [notice], 1) == Cut(0)


def test_a_message_that_is_not_in_the_history_any_more_is_said() -> None:
    made = Talk()
    made.asks()
    with pytest.raises(LookupError, match="user1"):
        cut([], made.items, 1)
