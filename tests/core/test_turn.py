"""The laws of a turn, over facts in any order."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from hermes_daemon.core.turn import INTERRUPTED_CALL, Turn, TurnError
from hermes_protocol.content import Message, TextPart, ToolCall, ToolResult
from hermes_protocol.events import Failure


def user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def says(text: str, *calls: str) -> Message:
    return Message("assistant", (TextPart(text), *(ToolCall(call, "tool", "{}") for call in calls)))


HELLO = user("hello")


def begun(max_rounds: int = 10, *, can_compact: bool = False) -> Turn:
    turn = Turn(max_rounds, can_compact=can_compact)
    assert turn.feed(Began((HELLO,))) == [CallModel((HELLO,), 1)]
    return turn


def test_an_answer_without_calls_settles_and_ends_when_accepted() -> None:
    turn = begun()
    draft = says("hi")
    assert turn.feed(ModelReplied(draft, "stop")) == [Record(draft), Settle(draft)]
    assert turn.feed(Accepted()) == [End("completed", "end_turn")]
    assert turn.history == (HELLO, draft)


def test_a_draft_sent_back_gets_another_round() -> None:
    turn = begun()
    turn.feed(ModelReplied(says("hi"), "stop"))
    effects = turn.feed(SentBack(user("run the tests")))
    assert effects[0] == Record(user("run the tests"))
    assert isinstance(effects[1], CallModel)
    assert effects[1].round == 2


def test_results_are_recorded_as_they_come_and_the_model_is_called_after_the_last() -> None:
    turn = begun()
    asks = says("", "a", "b")
    assert turn.feed(ModelReplied(asks, "tool_calls")) == [Record(asks), RunTools(asks.calls)]
    assert len(turn.feed(ToolReturned("b", "two"))) == 1
    last = turn.feed(ToolReturned("a", "one"))
    assert [type(effect) for effect in last] == [Record, CallModel]


def test_steering_lands_before_the_next_model_call() -> None:
    turn = begun()
    turn.feed(ModelReplied(says("", "a"), "tool_calls"))
    assert turn.feed(Steered(user("also this"))) == []
    effects = turn.feed(ToolReturned("a", "done"))
    assert effects[1] == Record(user("also this"))
    assert isinstance(effects[2], CallModel)
    assert turn.steers == ()


def test_steering_that_no_model_call_took_is_left_for_the_next_turn() -> None:
    turn = begun()
    turn.feed(Steered(user("late")))
    turn.feed(ModelReplied(says("hi"), "stop"))
    turn.feed(Accepted())
    assert turn.steers == (user("late"),)


def test_an_interrupt_keeps_the_partial_text_and_answers_every_call() -> None:
    thinking = begun()
    assert thinking.feed(Interrupted(says("par"))) == [Record(says("par")), End("interrupted", "interrupted")]
    acting = begun()
    acting.feed(ModelReplied(says("", "a", "b"), "tool_calls"))
    acting.feed(ToolReturned("a", "done"))
    answer = Message("tool", (ToolResult("b", INTERRUPTED_CALL, True),))
    assert acting.feed(Interrupted()) == [Record(answer), End("interrupted", "interrupted")]


@pytest.mark.parametrize(
    ("stop", "end"), [("length", End("limit", "max_tokens")), ("refusal", End("refused", "refusal"))]
)
def test_a_cut_or_refused_answer_is_not_a_completed_one(stop: str, end: End) -> None:
    assert begun().feed(ModelReplied(says("x"), stop))[-1] == end  # type: ignore[arg-type]


def test_calls_of_a_cut_answer_are_marked() -> None:
    effects = begun().feed(ModelReplied(says("", "a"), "length"))
    assert effects[-1] == RunTools(says("", "a").calls, cut=True)


def test_rounds_are_limited() -> None:
    turn = begun(max_rounds=1)
    turn.feed(ModelReplied(says("", "a"), "tool_calls"))
    assert turn.feed(ToolReturned("a", "x"))[-1] == End("limit", "max_rounds")


def test_a_failure_ends_the_turn_and_keeps_what_was_seen() -> None:
    failure = Failure("network", "gone")
    assert begun().feed(ModelFailed(failure, says("par"))) == [Record(says("par")), End("failed", "network", failure)]


def test_an_overflow_is_compacted_once() -> None:
    turn = begun(can_compact=True)
    failure = Failure("context_overflow", "too long")
    assert turn.feed(ModelFailed(failure)) == [Compact((HELLO,), "overflow")]
    assert turn.feed(Compacted((HELLO,), shorter=True)) == [CallModel((HELLO,), 2)]
    assert turn.feed(ModelFailed(failure)) == [End("failed", "context_overflow", failure)]


def test_a_fact_that_does_not_fit_names_the_phase() -> None:
    with pytest.raises(TurnError, match="'new'"):
        Turn(1).feed(Accepted())
    with pytest.raises(TurnError, match="unknown call 'zz' while thinking"):
        begun().feed(ToolReturned("zz", ""))


def test_a_second_answer_to_a_call_is_ignored() -> None:
    turn = begun()
    turn.feed(ModelReplied(says("", "a", "b"), "tool_calls"))
    turn.feed(ToolReturned("a", "x"))
    assert turn.feed(ToolReturned("a", "again")) == []


FACTS: st.SearchStrategy[Fact] = st.one_of(
    st.sampled_from(["stop", "length", "refusal", "tool_calls"]).flatmap(
        lambda stop: st.lists(st.sampled_from("abcd"), max_size=4).map(
            lambda calls: ModelReplied(says("t", *calls), stop)  # type: ignore[arg-type]
        )
    ),
    st.sampled_from(["network", "content_filter", "context_overflow"]).map(
        lambda kind: ModelFailed(Failure(kind, "m"))
    ),
    st.sampled_from("abcde").map(lambda call: ToolReturned(call, "r")),
    st.just(Steered(user("steer"))),
    st.sampled_from([Interrupted(), Interrupted(says("partial"))]),
    st.just(Compacted((HELLO,), True)),
    st.just(Accepted()),
    st.just(SentBack(user("more"))),
)


@given(st.lists(FACTS, max_size=40), st.integers(1, 6), st.booleans())
def test_whatever_happens_the_laws_hold(facts: list[Fact], rounds: int, can_compact: bool) -> None:
    turn = Turn(rounds, can_compact=can_compact)
    effects: list[Effect] = list(turn.feed(Began((HELLO,))))
    steered = 0
    for fact in facts:
        over = turn.phase == "over"
        try:
            new = turn.feed(fact)
        except TurnError:
            continue
        assert not (over and new), "nothing follows End"
        steered += isinstance(fact, Steered) and not over
        effects += new
        for effect in new:
            if isinstance(effect, CallModel):
                assert turn.steers == ()
                assert_acceptable(effect.history)
    assert sum(isinstance(effect, End) for effect in effects) == (turn.phase == "over")
    if turn.phase == "over":
        assert_answered(turn.history)
    recorded = sum(message == user("steer") for message in turn.history)
    if not any(isinstance(effect, Compact) for effect in effects):
        assert recorded + len(turn.steers) == steered, "steering is never lost"


def assert_answered(history: tuple[Message, ...]) -> None:
    calls = Counter(call.call_id for message in history for call in message.calls)
    results = Counter(result.call_id for message in history for result in message.results)
    assert calls == results


def assert_acceptable(history: tuple[Message, ...]) -> None:
    """Results follow their assistant message at once, and every call has one."""
    assert_answered(history)
    open_calls: Counter[str] = Counter()
    for message in history:
        if message.role == "tool":
            open_calls -= Counter(result.call_id for result in message.results)
        else:
            assert not +open_calls
            open_calls = Counter(call.call_id for call in message.calls)
