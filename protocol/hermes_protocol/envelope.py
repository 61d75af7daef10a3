"""JSON-RPC 2.0 envelopes: one message in, a Call, Note, Answer, Batch or Fault out; answers as bytes.

Strictness is protocol section 1: `jsonrpc` must be "2.0", ids are strings or integers, params an object, batches hold
1 to 64 entries. What is no request but valid JSON is a Fault with kind `invalid_request`.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import msgspec

from hermes_protocol.errors import ErrorObject, ProtocolError

MAX_BATCH: Final = 64
Id: TypeAlias = int | str


class Call(msgspec.Struct, frozen=True):
    """A request. `params` is undecoded JSON of an object; b"{}" when absent."""

    id: Id
    method: str
    params: msgspec.Raw


class Note(msgspec.Struct, frozen=True):
    """A notification: nobody waits for an answer."""

    method: str
    params: msgspec.Raw


class Answer(msgspec.Struct, frozen=True):
    """A response from the peer. The native dialect sends no requests, so a daemon ignores it; clients match the id."""

    id: Id | None
    result: msgspec.Raw | None
    error: ErrorObject | None


class Fault(msgspec.Struct, frozen=True):
    """What must be answered with an error; `id` is null where none could be read."""

    id: Id | None
    error: ErrorObject


Single: TypeAlias = Call | Note | Answer | Fault


class Batch(msgspec.Struct, frozen=True):
    """Entries in order; their answers go out as one array."""

    entries: tuple[Single, ...]


class _Plain(msgspec.Struct):
    """The shape nearly every frame has: decoded in one step."""

    jsonrpc: str
    method: str
    id: int | str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")


_BRACE: Final = ord("{")
_EMPTY: Final = msgspec.Raw(b"{}")
_plain = msgspec.json.Decoder(_Plain)
_entries = msgspec.json.Decoder(list[msgspec.Raw])
_loose = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def _fault(kind: str, message: str, id: Id | None = None, **data: Any) -> Fault:
    return Fault(id, ProtocolError(kind, message, **data).as_object())


def decode(body: bytes) -> Single | Batch:
    """One message. Never raises: what is wrong comes back as a Fault."""
    try:
        return _checked(_plain.decode(body), body)  # which skips what it does not know without looking at its UTF-8
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _classify(body)


def _checked(frame: _Plain, body: bytes) -> Single:
    if frame.jsonrpc != "2.0" or memoryview(frame.params)[0] != _BRACE:
        return _one(_loose_object(body))
    if isinstance(frame.id, msgspec.UnsetType):
        return Note(frame.method, frame.params)
    return Call(frame.id, frame.method, frame.params)


def _loose_object(body: bytes) -> dict[str, msgspec.Raw]:
    return _loose.decode(body)


def _classify(body: bytes) -> Single | Batch:
    """The slow path: find out what kind of wrong this is."""
    try:
        if body.lstrip()[:1] == b"[":
            return _batch(_entries.decode(body))
        msgspec.json.decode(body)
        return _one(_loose_object(body))
    except msgspec.ValidationError:
        return _fault("invalid_request", "a message is an object or a batch of objects")
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return _fault("parse", f"not JSON: {error}")


def _batch(rows: list[msgspec.Raw]) -> Single | Batch:
    if not rows:
        return _fault("invalid_request", "an empty batch asks for nothing")
    if len(rows) > MAX_BATCH:
        return _fault("invalid_request", f"a batch holds at most {MAX_BATCH} entries, this one {len(rows)}")
    return Batch(tuple(_entry(bytes(row)) for row in rows))


def _entry(body: bytes) -> Single:
    single = decode(body)
    if isinstance(single, Batch):
        return _fault("invalid_request", "a batch inside a batch")
    if isinstance(single, Call) and single.method == "initialize":
        return _fault("invalid_request", "initialize must not be part of a batch", single.id)
    return single


def _one(fields: dict[str, msgspec.Raw]) -> Single:
    """Name what is wrong with an object that the fast path refused."""
    id = _read_id(fields)
    if "method" not in fields and ("result" in fields) != ("error" in fields):
        return _answer(fields, id)
    if "id" in fields and id is None:
        return _fault("invalid_request", "id must be a string or an integer")
    if _value(fields.get("jsonrpc")) != "2.0":
        return _fault("invalid_request", 'jsonrpc must be "2.0"', id)
    method = _value(fields.get("method"))
    if not isinstance(method, str):
        return _fault("invalid_request", "method must be a string", id)
    params = fields.get("params")
    lead = bytes(params).lstrip()[:1] if params is not None else b"{"
    if lead == b"n":  # null: many libraries of editors write it where there are no params
        params = None
    elif lead == b"[":
        return _fault("invalid_params", "params must be an object, positional params are not supported", id, path="$")
    elif lead != b"{":
        return _fault("invalid_request", "params must be an object", id)
    raw = _EMPTY if params is None else params
    return Note(method, raw) if id is None else Call(id, method, raw)


def _answer(fields: dict[str, msgspec.Raw], id: Id | None) -> Single:
    if "result" in fields:
        return Answer(id, fields["result"], None)
    try:
        return Answer(id, None, msgspec.json.decode(fields["error"], type=ErrorObject))
    except msgspec.MsgspecError:
        return _fault("invalid_request", "error must be an object with code and message", id)


def _read_id(fields: dict[str, msgspec.Raw]) -> Id | None:
    try:
        value = _value(fields.get("id"))
    except msgspec.MsgspecError:
        return None
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _value(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def scan_id(head: bytes) -> Id | None:
    """The id of a message of which only the beginning was kept, when it can be read. An id inside params is none."""
    depth, key = 0, b""
    for token in _TOKENS.finditer(head):
        text = token.group()
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
        elif text == b":" and depth == 1 and key == b'"id"':
            value = _VALUE.match(head, token.end())
            return _read_id({"id": msgspec.Raw(value.group(1))}) if value else None
        key = text
    return None


# Strings as wholes, so that what looks like structure inside them is none.
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:]')
_VALUE: Final = re.compile(rb'\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*[,}]')


def call(id: Id, method: str, params: Any) -> bytes:
    """A request as bytes."""
    return _encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def note(method: str, params: Any) -> bytes:
    """A notification as bytes."""
    return _encode({"jsonrpc": "2.0", "method": method, "params": params})


def result(id: Id, value: Any) -> bytes:
    """A successful answer as bytes."""
    return b'{"jsonrpc":"2.0","id":' + _encode(id) + b',"result":' + _encode(value) + b"}"


def error(id: Id | None, value: ErrorObject) -> bytes:
    """An error answer as bytes."""
    return b'{"jsonrpc":"2.0","id":' + _encode(id) + b',"error":' + _encode(value) + b"}"


def batch(answers: list[bytes]) -> bytes:
    """Answers of a batch as one array."""
    return b"[" + b",".join(answers) + b"]"
