"""Recorded streams of each format, spoilt in every way: cut, doubled, reordered, corrupted at every byte.

The laws: nothing but a ProviderFailure with a sentence comes out; an answer is given only where its end was told; there
are never more calls than were made, never two with one id, and a call whose arguments were hit is no JSON object or is
a call that the model wrote.
"""

from __future__ import annotations

import asyncio
import json
import random

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.core.history import is_object
from hermes_daemon.core.ports import Chunk, ProviderFailure, Reply
from hermes_daemon.providers.failures import Endpoint
from hermes_daemon.providers.formats import FORMATS
from hermes_daemon.providers.http_answer import read_answer
from tests.support.formats_talk import FORMATS as NAMES
from tests.support.formats_talk import TOOLS, recorded
from tests.support.model_streams import asking

URL = "http://acme.test/v1"
AT = Endpoint("acme", URL, "m")
MADE = {("read_file", '{"path":"a.txt"}'), ("todo", '{"n":7}')}
every_format = pytest.mark.parametrize("name", NAMES)


class Bytes(httpx.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        for piece in self._pieces:
            yield piece


async def outcome(name: str, pieces: list[bytes]) -> tuple[Reply | None, ProviderFailure | None]:
    """The reply or the failure that these bytes give; fails the test when it is neither, or both."""
    kind = "application/x-ndjson" if name == "ollama" else "text/event-stream"
    response = httpx.Response(200, headers={"content-type": kind}, stream=Bytes(pieces))
    chunks: list[Chunk] = []
    failure: ProviderFailure | None = None
    format = FORMATS[name]  # type: ignore[index]
    try:
        async for chunk in read_answer(AT, response, format, format.reader(asking("x", tools=TOOLS))):
            chunks.append(chunk)  # noqa: PERF401 - what came before a failure counts
    except ProviderFailure as error:
        failure = error
    replies = [chunk for chunk in chunks if isinstance(chunk, Reply)]
    assert len(replies) == (1 if failure is None else 0)
    if failure is not None:
        assert URL in failure.message
        assert len(failure.message) > len(URL) + 10
        assert len(failure.message) < 2000
    return (replies[0] if replies else None), failure


def calls_of(reply: Reply) -> list[tuple[str, str]]:
    """The calls that could be run: those whose arguments are an object. Fails the test when ids are no ids."""
    calls = reply.message.calls
    assert len({call.call_id for call in calls} - {""}) == len(calls)
    return [
        (call.name, json.dumps(json.loads(call.arguments), separators=(",", ":")))
        for call in calls
        if is_object(call.arguments)
    ]


def check(name: str, variants: list[list[bytes]], *, intact: bool) -> None:
    """`intact`: no byte was changed, so a call that can be run is one that was made, and made once."""

    async def run() -> None:
        for pieces in variants:
            reply, _ = await outcome(name, pieces)
            if reply is None:
                continue
            runnable = calls_of(reply)
            assert len(reply.message.calls) <= len(MADE)
            if intact:
                assert set(runnable) <= MADE, pieces
                assert len(set(runnable)) == len(runnable)

    asyncio.run(run())


@every_format
def test_the_recording_itself_is_whole(name: str) -> None:
    async def run() -> None:
        reply, failure = await outcome(name, recorded(name))
        assert failure is None
        assert reply is not None
        assert set(calls_of(reply)) == MADE

    asyncio.run(run())


@every_format
def test_cut_at_every_byte(name: str) -> None:
    body = b"".join(recorded(name))
    check(name, [[body[:cut]] for cut in range(len(body))], intact=True)


@every_format
def test_split_at_every_byte_gives_the_same(name: str) -> None:
    body = b"".join(recorded(name))

    async def run() -> None:
        for cut in range(len(body)):
            reply, failure = await outcome(name, [body[:cut], body[cut:]])
            assert failure is None
            assert reply is not None
            assert set(calls_of(reply)) == MADE

    asyncio.run(run())


@every_format
def test_every_event_left_out(name: str) -> None:
    events = recorded(name)
    check(name, [events[:at] + events[at + 1 :] for at in range(len(events))], intact=name != "ollama")


@every_format
def test_every_event_doubled(name: str) -> None:
    events = recorded(name)
    # Ollama numbers nothing: a line that comes twice is two calls there, and nobody can tell.
    at_calls = [at for at, event in enumerate(events) if b"tool_calls" in event] if name == "ollama" else []
    variants = [events[: at + 1] + events[at:] for at in range(len(events)) if at not in at_calls]
    check(name, variants, intact=True)


@every_format
def test_every_two_events_exchanged(name: str) -> None:
    events = recorded(name)
    variants = []
    for one in range(len(events)):
        for other in range(one + 1, len(events)):
            mixed = list(events)
            mixed[one], mixed[other] = mixed[other], mixed[one]
            variants.append(mixed)
    check(name, variants, intact=True)


@every_format
@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80, 0xFF])
def test_corrupted_at_every_byte(name: str, flip: int) -> None:
    body = b"".join(recorded(name))
    places = range(0, len(body), 2 if flip > 1 else 1)
    check(name, [[body[:at] + bytes([body[at] ^ flip]) + body[at + 1 :]] for at in places], intact=False)


@every_format
def test_a_byte_left_out_or_put_in_anywhere(name: str) -> None:
    body = b"".join(recorded(name))
    check(name, [[body[:at] + body[at + 1 :]] for at in range(0, len(body), 2)], intact=False)
    check(name, [[body[:at] + b"\n" + body[at:]] for at in range(0, len(body), 2)], intact=False)


@every_format
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 8))
def test_many_faults_at_once(name: str, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    events = recorded(name)
    for _ in range(steps):
        at = chance.randrange(len(events))
        match chance.randrange(5):
            case 0:
                events.insert(at, events[chance.randrange(len(events))])
            case 1 if len(events) > 2:
                del events[at]
            case 2:
                chance.shuffle(events)
            case 3:
                events[at] = chance.randbytes(chance.randrange(1, 60)) + b"\n\n"
            case _:
                cut = chance.randrange(len(events[at]) or 1)
                events[at] = events[at][:cut]

    async def run() -> None:
        reply, _ = await outcome(name, events)
        if reply is not None:
            calls_of(reply)

    asyncio.run(run())
