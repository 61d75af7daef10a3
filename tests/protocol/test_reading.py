"""What a later version may write, read by this one."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_protocol import events as e
from hermes_protocol import methods as m
from hermes_protocol.reading import read

EVENT = {"sessionId": "s", "epoch": "e", "seq": 2, "prev": 1, "ts": ""}
words = st.from_regex(r"[a-z_]{1,12}", fullmatch=True).filter(lambda word: word not in ("text", "idle", "turn"))


def event(kind: str, data: dict[str, object]) -> e.EventData | None:
    found = msgspec.convert({**EVENT, "kind": kind, "data": msgspec.Raw(msgspec.json.encode(data))}, e.Event)
    return found.payload()


@given(words.filter(lambda word: word not in ("completed", "interrupted", "failed", "refused", "limit", "lost")))
def test_a_turn_that_ends_in_an_unknown_way_has_ended(word: str) -> None:
    ended = event("turn.ended", {"status": word, "stop": word, "usage": {}})
    assert isinstance(ended, e.TurnEnded)
    assert (ended.status, ended.stop) == ("other", word)


def test_a_question_that_is_resolved_in_an_unknown_way_is_resolved() -> None:
    told = event("request.resolved", {"requestId": "r", "outcome": "postponed", "at": ""})
    assert isinstance(told, e.RequestResolved)
    assert told.outcome == "other"


def test_an_item_that_is_completed_in_an_unknown_way_is_completed() -> None:
    item = {"type": "agentMessage", "itemId": "i", "status": "mended", "createdAt": "", "text": "x", "model": "m"}
    told = event("item.completed", {"item": item})
    assert isinstance(told, e.ItemCompleted)
    assert (told.item.status, told.item.item_id) == ("other", "i")


def snapshot(**more: object) -> dict[str, object]:
    summary = {
        "sessionId": "s", "title": "", "cwd": "/", "model": "m", "state": "dreaming", "createdAt": "", "updatedAt": "",
        "rev": 1, "usage": {},
    }  # fmt: skip
    said = {"type": "userMessage", "itemId": "i1", "status": "completed", "createdAt": "", "text": "hi", "input": []}
    queued = {"queueId": "q", "kind": "someday", "input": [], "turnId": "t", "by": {"clientId": "c", "name": "n"}}
    strange = {"type": "hologram", "itemId": "i2", "status": "completed"}
    return {
        "summary": summary, "options": {}, "rev": 1, "state": "dreaming", "usage": {}, "queueRev": 1, "paused": False,
        "items": [strange, said, strange],
        "inflight": [{"item": strange, "field": "text", "text": "", "offset": 0}],
        "openRequests": [{"requestId": "r", "sessionId": "s", "kind": "telepathy"}],
        "queue": [queued],
        **more,
    }  # fmt: skip


def test_a_snapshot_with_unknown_states_items_and_questions_is_read_without_them() -> None:
    result = {"mode": "snapshot", "epoch": "e", "seq": 3, "head": 3, "snapshot": snapshot()}
    found = read(msgspec.json.encode(result), msgspec.json.Decoder(m.SubscribeResult)).snapshot
    assert found is not None
    assert (found.state, found.summary.state) == ("other", "other")
    assert [item.item_id for item in found.items] == ["i1"]
    assert found.open_requests == ()
    assert [(row.queue_id, row.kind) for row in found.queue] == [("q", "turn")], "the field's own default"


@pytest.mark.parametrize("wrong", [{"summary": 3}, {"items": "none"}, {"queue": [{}]}, {"rev": "one"}])
def test_what_is_wrong_in_another_way_is_refused_as_before(wrong: dict[str, object]) -> None:
    decoder = msgspec.json.Decoder(m.Snapshot)
    data = msgspec.json.encode(snapshot(**wrong))
    with pytest.raises(msgspec.ValidationError):
        read(data, decoder)
    with pytest.raises(msgspec.DecodeError):
        read(b"{", decoder)


@given(
    st.sampled_from(["status", "items", "options", "queue"]), st.recursive(st.none() | words, st.lists, max_leaves=5)
)
def test_whatever_stands_in_a_field_is_read_or_refused_and_never_anything_else(field: str, value: object) -> None:
    with contextlib.suppress(msgspec.ValidationError):
        read(msgspec.json.encode(snapshot(**{field: value})), msgspec.json.Decoder(m.Snapshot))
