"""The fold of events into a View."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hermes_client.view import View, apply, empty, from_snapshot, shown_output
from hermes_protocol import events as e
from tests.support.client_journal import Journal


def fold(view: View, events: list[e.Event]) -> View:
    for event in events:
        view = apply(view, event)
    return view


def all_of(journal: Journal) -> View:
    return fold(empty(journal.session.session_id), journal.events)


QUESTIONS = (e.Question("q1", "Which?", ("a", "b")), e.Question("q2", "Why?"))
ACTIONS = (
    *("start_turn", "end_turn", "start_message", "start_reasoning", "start_call", "delta", "delta", "delta"),
    *("complete", "complete_other_text", "discard", "ask", "clock", "resolve", "enqueue", "dequeue", "pause"),
    *("update", "option", "start_compaction", "end_compaction"),
    *("ask_clarify", "answer_one", "rewind", "edit", "reorder", "drop"),
)


def act(journal: Journal, action: str, draw: st.DataObject) -> None:
    """Do what `action` names, when it is possible now."""
    calls = [i.item_id for i in journal.items if isinstance(i, e.ToolCallItem) and i.item_id in journal.open]
    opened = list(journal.open)
    asked = [row.request_id for row in journal.requests]
    unanswered = [
        (row.request_id, question.id)
        for row in journal.requests
        for question in row.questions
        if question.id not in {status.id for status in row.answered}
    ]
    completed = [i.item_id for i in journal.items if i.item_id not in journal.open]
    queued = [entry.queue_id for entry in journal.queue]
    text = st.text("ab é😀\n", max_size=12)

    def one(of: list[str]) -> str:
        return draw.draw(st.sampled_from(of))

    running = journal.turn is not None
    possible: dict[str, tuple[bool, Any]] = {
        "start_turn": (not running, lambda: journal.start_turn(draw.draw(text))),
        "end_turn": (running, journal.end_turn),
        "start_message": (running, journal.start_message),
        "start_reasoning": (running, lambda: journal.start_message(e.Reasoning)),
        "start_call": (running, journal.start_call),
        "delta": (bool(opened), lambda: journal.delta(one(opened), draw.draw(text))),
        "complete": (bool(opened), lambda: journal.complete(one(opened))),
        "complete_other_text": (bool(opened), lambda: journal.complete(one(opened), text=draw.draw(text))),
        "discard": (bool(opened), lambda: journal.discard(one(opened))),
        "ask": (bool(calls), lambda: journal.ask(one(calls))),
        "clock": (bool(asked), lambda: journal.clock(one(asked), True, 5000)),
        "ask_clarify": (running, lambda: journal.ask_people("clarify", questions=QUESTIONS)),
        "answer_one": (
            bool(unanswered),
            lambda: journal.answer_one(*draw.draw(st.sampled_from(unanswered)), e.ClarifyAnswer(text="so")),
        ),
        "rewind": (bool(completed) and not running, lambda: journal.rewind(one(completed))),
        "edit": (bool(queued), lambda: journal.edit(one(queued), draw.draw(text))),
        "reorder": (bool(queued), lambda: journal.reorder([one(queued)])),
        "drop": (bool(queued), lambda: journal.drop(one(queued))),
        "resolve": (bool(asked), lambda: journal.resolve(one(asked), "allow_once")),
        "enqueue": (True, lambda: journal.enqueue(draw.draw(text))),
        "dequeue": (bool(journal.queue), journal.dequeue),
        "pause": (True, lambda: journal.pause(draw.draw(st.booleans()))),
        "update": (True, lambda: journal.update(title=draw.draw(text), occupancy_pct=12.5)),
        "option": (True, lambda: journal.set_option("model", draw.draw(text))),
        "start_compaction": (not journal.compacting, journal.start_compaction),
        "end_compaction": (journal.compacting, journal.end_compaction),
    }
    can, perform = possible[action]
    if can:
        perform()


@given(st.lists(st.sampled_from(ACTIONS), max_size=40), st.lists(st.sampled_from(ACTIONS), max_size=20), st.data())
def test_a_snapshot_and_the_events_after_it_equal_all_events(before: list[str], after: list[str], draw: Any) -> None:
    journal = Journal()
    for action in before:
        act(journal, action, draw)
    snapshot = msgspec.json.decode(msgspec.json.encode(journal.snapshot()), type=type(journal.snapshot()))
    head = len(journal.events)
    assert from_snapshot(snapshot) == all_of(journal)
    for action in after:
        act(journal, action, draw)
    assert fold(from_snapshot(snapshot), journal.events[head:]) == all_of(journal)
    assert from_snapshot(journal.snapshot()).state == journal.state()


def test_a_late_joiner_sees_the_words_said_so_far_and_then_the_rest() -> None:
    journal = Journal()
    journal.start_turn("count")
    answer = journal.start_message()
    for n in range(15):
        journal.delta(answer, f"word{n} ")
    view, head = from_snapshot(journal.snapshot()), len(journal.events)
    assert view.text(view.items[-1]).split() == [f"word{n}" for n in range(15)]
    journal.delta(answer, "end")
    view = fold(view, journal.events[head:])
    assert view.text(view.items[-1]).endswith("word14 end")


def test_the_final_text_replaces_what_the_deltas_said() -> None:
    journal = Journal()
    journal.start_turn("hi")
    answer = journal.start_message()
    journal.delta(answer, "a secret")
    journal.complete(answer, text="[redacted]")
    view = all_of(journal)
    assert view.text(view.items[-1]) == "[redacted]"
    assert not view.streaming


def test_a_delta_that_overlaps_repairs_and_one_behind_a_gap_waits_for_the_final_text() -> None:
    journal = Journal()
    journal.start_turn("hi")
    answer = journal.start_message()
    journal.delta(answer, "abcdef")
    view = all_of(journal)
    repaired = apply(view, journal.emit(e.ItemDelta("text", "XY", 3), item_id=answer))
    assert repaired.streaming[answer].text == "abcXY"
    assert apply(view, journal.emit(e.ItemDelta("text", "far", 99), item_id=answer)) == view


def test_offsets_count_code_points() -> None:
    journal = Journal()
    journal.start_turn("hi")
    answer = journal.start_message()
    journal.delta(answer, "a😀é")
    journal.delta(answer, "!")
    view = all_of(journal)
    assert view.streaming[answer].text == "a😀é!"


def test_an_unknown_kind_and_an_unreadable_payload_change_nothing() -> None:
    journal = Journal()
    view = all_of(journal)
    known = journal.emit(e.Notice("info", "x", "y"))
    strange = msgspec.structs.replace(known, kind="weather.changed", data=msgspec.Raw(b'{"rain":true}'))
    broken = msgspec.structs.replace(known, kind="item.completed", data=msgspec.Raw(b'{"item":{"type":"hologram"}}'))
    assert apply(view, strange) == view
    assert apply(view, broken) == view


def test_what_ends_in_a_way_of_a_later_version_has_ended() -> None:
    journal = Journal()
    journal.start_turn("go")
    request = journal.ask(journal.start_call())
    view = all_of(journal)
    assert view.state == "waiting"
    resolved = {"requestId": request, "outcome": "postponed", "at": ""}
    known = journal.emit(e.Notice("info", "x", "y"))
    view = apply(
        view, msgspec.structs.replace(known, kind="request.resolved", data=msgspec.Raw(msgspec.json.encode(resolved)))
    )
    assert view.state == "running"
    ended = msgspec.structs.replace(known, kind="turn.ended", data=msgspec.Raw(b'{"status":"tired"}'))
    assert apply(view, ended).state == "idle"


def test_an_option_of_a_later_version_is_left_alone() -> None:
    journal = Journal()
    view = all_of(journal)
    later = apply(view, journal.emit(e.SessionOption("sparkle", 3)))
    wrong = apply(view, journal.emit(e.SessionOption("mode", "loud")))
    assert later.options == wrong.options == view.options
    assert apply(view, journal.emit(e.SessionOption("mode", "off"))).options.mode == "off"


def test_a_chosen_model_is_the_sessions_model_before_any_turn_runs_with_it() -> None:
    journal = Journal()
    view = apply(all_of(journal), journal.emit(e.SessionOption("model", "scripted/words")))
    assert view.session.model == view.options.model == "scripted/words"
    assert apply(view, journal.emit(e.SessionOption("model", None))).session.model == "scripted/words"


def test_a_rewind_drops_everything_after_its_item() -> None:
    journal = Journal()
    for text in ("one", "two", "three"):
        journal.start_turn(text)
        journal.end_turn()
    second = journal.items[1].item_id
    view = apply(all_of(journal), journal.emit(e.SessionRewound(second, 1, 7, second)))
    assert [item.item_id for item in view.items] == [journal.items[0].item_id, second]
    assert view.session.rev == 7
    rest = apply(view, journal.emit(e.SessionRewound(journal.items[0].item_id, 2, 8)))
    assert rest.items == ()


def test_parallel_calls_keep_the_order_they_began_in() -> None:
    journal = Journal()
    journal.start_turn("go")
    first, second = journal.start_call("read_file"), journal.start_call("search_files")
    journal.complete(second)
    early = from_snapshot(journal.snapshot())
    assert [item.item_id for item in early.items[1:]] == [first, second]


def test_a_big_output_says_how_much_lies_in_the_blob() -> None:
    output = e.Output(head="a" * 10, tail="z" * 10, blob=e.BlobRef("b1", 5020))
    assert "5,000 bytes left out" in shown_output(output)
    assert "b1" in shown_output(output)
    assert shown_output(None) == ""


def test_a_truncated_snapshot_says_where_older_items_are() -> None:
    journal = Journal()
    for n in range(5):
        journal.start_turn(str(n))
        journal.end_turn()
    view = from_snapshot(journal.snapshot(tail=2))
    assert view.older_cursor == view.items[0].item_id


def test_a_rewind_to_before_what_is_held_leaves_nothing() -> None:
    journal = Journal()
    journal.start_turn("one")
    journal.end_turn()
    journal.start_turn("two")
    journal.end_turn()
    late = from_snapshot(journal.snapshot(tail=1))
    journal.rewind(journal.items[0].item_id)
    rewound = apply(late, journal.events[-1])
    assert rewound.items == ()
    assert rewound.session.rev == journal.session.rev
