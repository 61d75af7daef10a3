"""What a JSON-RPC message is taken for, and what is answered to what is none."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_protocol.envelope import Answer, Batch, Call, Fault, Note, call, decode, error, note, result, scan_id
from hermes_protocol.errors import ProtocolError


def fault(body: bytes) -> Fault:
    single = decode(body)
    assert isinstance(single, Fault), single
    return single


def test_a_request_keeps_its_id_and_its_params_undecoded() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":0,"method":"m","params":{"a":1}}') == Call(0, "m", msgspec.Raw(b'{"a":1}'))


def test_params_that_are_null_are_none() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":1,"method":"shutdown","params":null}') == Call(
        1, "shutdown", msgspec.Raw(b"{}")
    )
    assert decode(b'{"jsonrpc":"2.0","method":"exit","params": null }') == Note("exit", msgspec.Raw(b"{}"))


def test_params_may_be_left_out() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":"x","method":"m"}') == Call("x", "m", msgspec.Raw(b"{}"))


def test_a_message_without_id_is_a_notification() -> None:
    assert decode(b'{"jsonrpc":"2.0","method":"exit"}') == Note("exit", msgspec.Raw(b"{}"))


@pytest.mark.parametrize("id", [b"null", b"1.5", b"1.0", b"1e3", b"true", b"{}", b"[1]"])
def test_an_id_that_is_neither_string_nor_integer_is_an_invalid_request(id: bytes) -> None:
    answer = fault(b'{"jsonrpc":"2.0","id":' + id + b',"method":"m"}')
    assert (answer.id, answer.error.code) == (None, -32600)


@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"{oops", -32700, None),
        (b'"\xff"', -32700, None),
        (b"[" * 5000, -32700, None),
        (b'{"jsonrpc":"1.0","i\xcad":9,"method":"x"}', -32700, None),
        (b"null", -32600, None),
        (b"5", -32600, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
        (b'{"jsonrpc":"1.0","id":2,"method":"x"}', -32600, 2),
        (b'{"id":2,"method":"x"}', -32600, 2),
        (b'{"jsonrpc":"2.0","id":3,"method":7}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":4,"method":"x","params":"str"}', -32600, 4),
        (b'{"jsonrpc":"2.0","id":4,"method":"x","params":[1]}', -32602, 4),
        (b'{"jsonrpc":"2.0","id":4,"method":"x","params":true}', -32600, 4),
        (b'{"jsonrpc":"2.0","id":6,"result":1,"error":{"code":1,"message":"m"}}', -32600, 6),
    ],
)
def test_what_is_no_request_is_named_with_the_id_where_there_is_one(body: bytes, code: int, id: object) -> None:
    answer = fault(body)
    assert (answer.error.code, answer.id) == (code, id)
    assert answer.error.data["kind"]


def test_a_response_of_the_peer_is_told_apart() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":999,"result":1}') == Answer(999, msgspec.Raw(b"1"), None)


def test_a_batch_keeps_order_and_refuses_initialize_and_nested_batches() -> None:
    body = (
        b'[{"jsonrpc":"2.0","id":1,"method":"a"},5,[],{"jsonrpc":"2.0","method":"n"},'
        b'{"jsonrpc":"2.0","id":2,"method":"initialize"}]'
    )
    batch = decode(body)
    assert isinstance(batch, Batch)
    kinds = [type(entry).__name__ for entry in batch.entries]
    assert kinds == ["Call", "Fault", "Fault", "Note", "Fault"]
    assert batch.entries[4].id == 2  # type: ignore[union-attr]


def test_a_batch_holds_at_most_64_entries() -> None:
    entry = b'{"jsonrpc":"2.0","method":"n"}'
    assert isinstance(decode(b"[" + b",".join([entry] * 64) + b"]"), Batch)
    assert fault(b"[" + b",".join([entry] * 65) + b"]").error.code == -32600


@given(st.binary(max_size=200))
def test_any_bytes_give_a_verdict_and_never_an_exception(body: bytes) -> None:
    decode(body)


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "x"]), st.from_type(int) | st.text()))
def test_any_object_gives_a_verdict(fields: dict[str, object]) -> None:
    decode(msgspec.json.encode(fields))


@pytest.mark.parametrize(
    ("head", "id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"aaaa', 7),
        (b'{"id": "k-1" ,"method":"x","params":', "k-1"),
        (b'{"id":-3}', -3),
        (b'{"id":-3', None),  # perhaps the beginning of -34
        (b'{"params":{"id":5},"id":7,"x":"', 7),
        (b'{"params":{"id":5,"text":"aaaa', None),
        (b'{"method":"\\"id\\":4","a":[{"id":5}],"id":"x","b":', "x"),
        (b'{"params":{"text":"aaaa', None),
        (b'{"id":null,"a":', None),
        (b'{"id":true,"a":', None),
        (b'{"id":1.5,"a":', None),
    ],
)
def test_the_id_of_a_cut_message_is_found_where_it_can_be_read(head: bytes, id: object) -> None:
    assert scan_id(head) == id


def test_what_we_write_is_what_we_read() -> None:
    assert decode(call(1, "m", {"a": 1})) == Call(1, "m", msgspec.Raw(b'{"a":1}'))
    assert decode(note("n", {})) == Note("n", msgspec.Raw(b"{}"))
    assert decode(result("i", {"ok": True})) == Answer("i", msgspec.Raw(b'{"ok":true}'), None)
    wrong = ProtocolError("turn_in_progress", "busy", activeTurnId="t1").as_object()
    answer = decode(error(3, wrong))
    assert isinstance(answer, Answer)
    assert answer.error == wrong
    assert wrong.data == {"kind": "turn_in_progress", "retryable": False, "activeTurnId": "t1"}
