"""Whatever bytes come, the daemon answers in JSON-RPC or closes; and unknown fields change nothing anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_protocol.methods import METHODS
from tests.support.live import Live, Peer, live
from tests.support.loops import FACTORIES

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
# Stopping the daemon and waiting for what never comes are no work for a fuzzer.
QUIET = sorted(set(METHODS) - {"hermes/daemon/shutdown", "hermes/session/wait", "hermes/models/list"})
FIELDS = st.sampled_from(
    ["sessionId", "cwd", "limit", "cursor", "input", "key", "requestId", "answer", "id", "value", "path", "query", "x",
     "tail", "since", "before", "blobId", "offset", "title", "queueId", "options", "format", "what", "lines"]
)  # fmt: skip
PARAMS = st.dictionaries(FIELDS, JSON, max_size=5) | JSON
CALLS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | JSON, "id": st.integers() | st.text(max_size=5) | JSON,
     "method": st.sampled_from(QUIET) | st.text(max_size=10)},
    optional={"params": PARAMS, "result": JSON, "error": JSON},
)  # fmt: skip
BODIES = (
    CALLS.map(msgspec.json.encode)
    | st.lists(CALLS | JSON, max_size=5).map(msgspec.json.encode)
    | st.binary(max_size=60)
)


class Fuzzed:
    """One daemon for all examples of a test, on a loop of its own."""

    def __init__(self, loop: str) -> None:
        self._runner = asyncio.Runner(loop_factory=FACTORIES[loop])
        self._home = tempfile.TemporaryDirectory()
        self._live = live(self._home.name)

    def __enter__(self) -> Fuzzed:
        self.daemon: Live = self._runner.run(self._live.__aenter__())
        return self

    def __exit__(self, *exc: object) -> None:
        self._runner.run(self._live.__aexit__(None, None, None))
        self._runner.close()
        self._home.cleanup()

    def run(self, story: Any) -> None:
        self._runner.run(story)


@pytest.mark.parametrize("loop", sorted(FACTORIES))
def test_any_messages_get_an_answer_that_is_json_rpc_and_no_bug(loop: str) -> None:
    async def conversation(daemon: Live, bodies: list[bytes]) -> None:
        peer = await daemon.peer(client={"id": "fuzz", "name": "fuzz"})
        for body in bodies:
            peer.send(body.replace(b"\n", b" "))
        peer.send({"jsonrpc": "2.0", "id": "the end", "method": "hermes/daemon/ping"})
        await peer.answer("the end")
        for frame in peer.order:
            for one in frame if isinstance(frame, list) else [frame]:
                assert one["jsonrpc"] == "2.0"
                assert ("result" in one) + ("error" in one) + ("method" in one) == 1
                if "error" in one:
                    assert one["error"]["data"]["kind"] != "internal", one
        peer.close()

    with Fuzzed(loop) as fuzzed:

        @settings(max_examples=150)
        @given(st.lists(BODIES, min_size=1, max_size=6))
        def law(bodies: list[bytes]) -> None:
            fuzzed.run(conversation(fuzzed.daemon, bodies))

        law()


@pytest.mark.parametrize("loop", sorted(FACTORIES))
def test_any_bytes_in_any_pieces_leave_the_daemon_standing(loop: str) -> None:
    async def stream(daemon: Live, lead: bytes, pieces: list[bytes]) -> None:
        peer = await daemon.peer(initialize=False)
        with contextlib.suppress(OSError, RuntimeError):  # it may have hung up on us already
            peer.writer.write(lead)
            for piece in pieces:
                peer.writer.write(piece)
                await asyncio.sleep(0)
            peer.writer.write_eof()
            await peer.closed()
        peer.close()

    async def still_there(daemon: Live) -> None:
        peer = await daemon.peer()
        await peer.request("hermes/daemon/ping")
        peer.close()

    leads = [b"", b"{", b"[", b"Content-Length: 5\r\n\r\n", b"content-length:", b"G", b"\n\n"]
    with Fuzzed(loop) as fuzzed:

        @settings(max_examples=150)
        @given(st.sampled_from(leads), st.lists(st.binary(max_size=80), max_size=5))
        def law(lead: bytes, pieces: list[bytes]) -> None:
            fuzzed.run(stream(fuzzed.daemon, lead, pieces))

        law()
        fuzzed.run(still_there(fuzzed.daemon))


NEW = st.dictionaries(st.sampled_from(["zz", "zzNew", "$schema", "zz Field", "zz_ü"]), JSON, max_size=3)


def padded(value: Any, extra: list[dict[str, Any]]) -> Any:
    """`value` with keys of a later version in every object."""
    if isinstance(value, list):
        return [padded(entry, extra) for entry in value]
    if isinstance(value, dict):
        return {**{key: padded(entry, extra) for key, entry in value.items()}, **(extra[len(value) % len(extra)])}
    return value


async def same_conversation(home: str, extra: list[dict[str, Any]]) -> list[Any]:
    """A conversation whose every object carries `extra`; what came of it, without ids and times."""
    said: list[Any] = []
    async with live(home) as daemon:
        peer = await daemon.peer(initialize=False)

        async def ask(method: str, params: dict[str, Any]) -> Any:
            peer._next += 1
            frame = {"jsonrpc": "2.0", "id": peer._next, "method": method, "params": params}
            peer.send(padded(frame, extra))
            answer = await peer.answer(peer._next)
            said.append((method, sorted(answer), answer.get("error", {}).get("code")))
            return answer.get("result")

        client = {"id": "i", "name": "n"}
        await ask("initialize", {"hermes": {"protocolVersions": ["1.0"], "client": client, "capabilities": {}}})
        created = await ask("hermes/session/create", {"cwd": "/", "options": {"unattended": "deny"}, "key": "c"})
        session = created["session"]["sessionId"]
        await ask("hermes/session/subscribe", {"sessionId": session, "since": {"epoch": created["epoch"], "seq": 0}})
        submit = {"sessionId": session, "key": "k", "input": [{"type": "text", "text": "hello"}], "options": {}}
        await ask("hermes/turn/submit", submit)
        assert (await ask("hermes/turn/submit", submit))["duplicate"] is True
        await peer.event("turn.ended")
        await ask("hermes/session/items", {"sessionId": session, "limit": 1})
        await ask("hermes/session/setOption", {"sessionId": session, "id": "thinking", "value": "low"})
        await ask("hermes/request/answer", {"requestId": "none", "answer": {"optionId": "deny"}})
        await ask("hermes/session/list", {"limit": "not a number"})
        await ask("hermes/session/rename", {"sessionId": session, "title": "t"})
        said.append([frame["params"]["kind"] for frame in peer.order if frame.get("method") == "hermes/event"])
    return said


def test_keys_of_a_later_version_anywhere_change_nothing() -> None:
    async def once(extra: list[dict[str, Any]]) -> list[Any]:
        with tempfile.TemporaryDirectory() as home:
            return await same_conversation(home, extra)

    plain = asyncio.run(once([{}]))

    @settings(max_examples=25)
    @given(st.lists(NEW, min_size=1, max_size=3))
    def law(extra: list[dict[str, Any]]) -> None:
        assert asyncio.run(once(extra)) == plain

    law()


def test_peers_are_told_apart_by_nothing_but_their_connection() -> None:
    """A hundred connections with one client id are a hundred connections."""

    async def story() -> None:
        with tempfile.TemporaryDirectory() as home:
            async with live(home) as daemon:
                peers: list[Peer] = [await daemon.peer("same") for _ in range(100)]
                calls = [(peer, peer.call("hermes/daemon/ping", {"echo": n})) for n, peer in enumerate(peers)]
                for number, (peer, call) in enumerate(calls):
                    assert (await peer.answer(call))["result"]["echo"] == number

    asyncio.run(story())
