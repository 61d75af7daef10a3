"""A connection from its first byte to its last: initialize, takeover, shutdown, half-close, cancellation, limits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.engine.mailbox import MAILBOX
from hermes_daemon.server.connection import MAX_IN_FLIGHT, MAX_IN_FLIGHT_OF_ALL
from tests.support.live import Peer, live
from tests.support.loops import on_every_loop, run

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"hermes": {}}}


def wait_for(session: str, **more: Any) -> dict[str, Any]:
    return {"sessionId": session, "until": "seq", "seq": 1_000_000, **more}


# --- initialize ---


def test_initialize_says_what_a_client_needs(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(initialize=False)
            answer = await peer.request("initialize", {"hermes": {}, "processId": 1, "capabilities": {}})
            welcome = answer["capabilities"]["experimental"]["hermes"]
            assert welcome["protocolVersion"] == "1.0"
            assert welcome["limits"] == {
                "maxFrameBytes": 8_388_608, "maxInlineBytes": 65_536, "maxBatch": 64, "maxInFlight": 64,
            }  # fmt: skip
            assert {"bootId", "buildId", "stale", "schemaHash", "connectionId", "features"} <= set(welcome)
            assert welcome["requestKinds"] == [
                "permission",
                "clarify",
                "secret",
                "form",
                "clientTool",
                "clientMiddleware",
            ]
            assert answer["serverInfo"]["name"] == "hermes-daemon"

    run(story())


def test_the_lsp_place_for_our_options_works_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(initialize=False)
            await peer.request("initialize", {"initializationOptions": {"hermes": {"client": {"name": "lsp-ish"}}}})
            status = await peer.request("hermes/daemon/status")
            assert [row["name"] for row in status["connections"]] == ["lsp-ish"]

    run(story())


@pytest.mark.parametrize(
    ("params", "code", "detail"),
    [
        ({}, -32602, ("dialects", ["native"])),
        ({"protocolVersion": "2025-06-18", "capabilities": {}}, -32602, ("dialects", ["native"])),
        ({"hermes": {"protocolVersions": ["9.0"]}}, -32056, ("supported", ["1.0"])),
        ({"hermes": {"client": {"id": 5}}}, -32602, ("path", "$.hermes.client.id")),
        ({"hermes": {"client": {"role": "king"}}}, -32602, ("path", "$.hermes.client.role")),
        ({"hermes": []}, -32602, ("path", "$.hermes")),
    ],
)
def test_an_initialize_that_does_not_fit_is_refused_and_may_be_tried_again(
    tmp_path: Path, params: dict[str, Any], code: int, detail: tuple[str, object]
) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(initialize=False)
            error = await peer.refused("initialize", params)
            assert (error["code"], error["data"][detail[0]]) == (code, detail[1])
            await peer.initialize("again")

    run(story())


@on_every_loop
@pytest.mark.parametrize("body", [b'"\xff"', b'{"a":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001])
def test_an_initialize_that_cannot_be_read_does_not_end_the_connection(tmp_path: Path, loop: str, body: bytes) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(initialize=False)
            peer.send(b'{"jsonrpc":"2.0","id":50,"method":"initialize","params":{"protocolVersion":%b}}' % body)
            while not peer.answers:
                await peer._read()
            assert all("error" in answer for answer in peer.answers.values())
            await peer.initialize("again")

    run(story(), loop)


@pytest.mark.parametrize(
    "hello",
    [
        {"hermes": {"protocolVersions": ["9.0"], "capabilities": "in a later shape", "takeover": []}},
        {"hermes": {"protocolVersions": ["9.0", "9.1"], "client": {"name": "later", "role": "a new role", "id": "i"}}},
        {"initializationOptions": {"hermes": {"protocolVersions": ["9.0"]}}},
    ],
)
def test_without_a_common_version_only_three_methods_are_served(tmp_path: Path, hello: dict[str, Any]) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(initialize=False)
            for method in ("hermes/daemon/status", "hermes/daemon/ping", "hermes/daemon/shutdown"):
                assert (await peer.refused(method, {"mode": "now"}))["code"] == -32002
            error = await peer.refused("initialize", hello)
            assert (error["code"], error["data"]["supported"]) == (-32056, ["1.0"])
            assert (await peer.request("hermes/daemon/ping", {"echo": 1, "more": 2}))["echo"] == 1
            rows = (await peer.request("hermes/daemon/status"))["connections"]
            assert [row["dialect"] for row in rows if row["id"]] == ["none"]
            for method in ("hermes/session/list", "hermes/daemon/logs", "shutdown"):
                assert (await peer.refused(method))["code"] == -32002
            await peer.initialize("one that also speaks ours")
            await peer.request("hermes/session/list")

    run(story())


def test_a_client_of_another_version_may_drain_the_daemon_unless_it_is_an_observer(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            worker = await daemon.peer("worker")
            session = await worker.session(str(tmp_path), model="scripted/words?n=20&delay_ms=1")
            await worker.submit(session, "count")
            peer = await daemon.peer(initialize=False)
            watcher = {"hermes": {"protocolVersions": ["9.0"], "client": {"role": "observer"}}}
            assert (await peer.refused("initialize", watcher))["code"] == -32056
            error = await peer.refused("hermes/daemon/shutdown", {"mode": "drain"})
            assert error["data"]["kind"] == "permission_denied"
            assert (await peer.refused("initialize", {"hermes": {"protocolVersions": ["9.0"]}}))["code"] == -32056
            drained = await peer.request("hermes/daemon/shutdown", {"mode": "drain", "restart": True})
            assert drained["waitingFor"][0] == f"turn of {session}"
            assert (await worker.note("hermes/daemon/state"))["restart"] is True
            assert (await worker.event("turn.ended"))["data"]["status"] == "completed"

    run(story())


def test_nothing_is_served_before_initialize(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(initialize=False)
            peer.send({"jsonrpc": "2.0", "method": "initialized"})
            for method in ("hermes/daemon/ping", "hermes/session/list", "no/such", "shutdown"):
                assert (await peer.refused(method))["code"] == -32002
            await peer.initialize("now")
            await peer.request("hermes/daemon/ping")

    run(story())


def test_a_second_initialize_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer("first")
            error = await peer.refused("initialize", {"hermes": {"client": {"name": "second", "role": "observer"}}})
            assert error["code"] == -32600
            assert (await peer.request("hermes/daemon/status"))["connections"][0]["name"] == "first"

    run(story())


def test_an_observer_may_look_and_not_change(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner = await daemon.peer("owner")
            session = await owner.session(str(tmp_path))
            await owner.say(session, "hello")
            watcher = await daemon.peer("watcher", client={"id": "w", "name": "watcher", "role": "observer"})
            await watcher.request("hermes/session/subscribe", {"sessionId": session})
            await watcher.request("hermes/session/items", {"sessionId": session})
            text = [{"type": "text", "text": "x"}]
            for method, params in (
                ("hermes/session/create", {"cwd": str(tmp_path)}),
                ("hermes/session/rename", {"sessionId": session, "title": "x"}),
                ("hermes/session/setOption", {"sessionId": session, "id": "mode", "value": "off"}),
                ("hermes/session/delete", {"sessionId": session}),
                ("hermes/turn/submit", {"sessionId": session, "key": "k", "input": text}),
                ("hermes/turn/interrupt", {"sessionId": session}),
                ("hermes/queue/resume", {"sessionId": session}),
                ("hermes/queue/remove", {"sessionId": session, "queueId": "q"}),
                ("hermes/request/answer", {"requestId": "r", "answer": {"optionId": "deny"}}),
                ("hermes/daemon/shutdown", {"mode": "now"}),
                ("hermes/daemon/reload", {}),
            ):
                assert (await watcher.refused(method, params))["data"]["kind"] == "permission_denied", method
            await owner.say(session, "and on")
            await watcher.event("turn.ended")

    run(story())


@on_every_loop
def test_a_takeover_ends_the_older_connection_of_the_same_client_only(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            old, other = await daemon.peer("same"), await daemon.peer("other")
            twin = await daemon.peer("same")
            await old.request("hermes/daemon/ping")
            new = await daemon.peer("same", takeover=True)
            assert await old.closed() == []
            assert await twin.closed() == []
            await other.request("hermes/daemon/ping")
            await new.request("hermes/daemon/ping")

    run(story(), loop)


@on_every_loop
def test_a_takeover_inherits_the_session_while_the_half_open_predecessor_reads_nothing(
    tmp_path: Path, loop: str
) -> None:
    """Section 2: the old connection is full of what nobody reads; the new one gets it all and is the only one left."""

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            old = await daemon.peer("same")
            session = await old.session(str(tmp_path), model="scripted/words?n=3000")
            other = await daemon.peer("other")
            await other.request("hermes/session/subscribe", {"sessionId": session})
            await other.say(session, "count")
            new = await daemon.peer("same", takeover=True)
            subscribed = await new.request("hermes/session/subscribe", {"sessionId": session})
            assert len(subscribed["snapshot"]["items"]) == 2
            rows = (await new.request("hermes/daemon/status"))["connections"]
            assert sorted(row["client"] for row in rows) == ["id-other", "id-same"]
            assert subscribed["snapshot"]["summary"]["clients"] == 2
            assert (await new.say(session, "again"))["data"]["status"] == "completed"

    run(story(), loop)


# --- leaving ---


@on_every_loop
def test_after_shutdown_requests_are_refused_and_events_stop_and_the_daemon_lives_on(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            leaver, stayer = await daemon.peer("leaver"), await daemon.peer("stayer")
            session = await stayer.session(str(tmp_path))
            await leaver.request("hermes/session/subscribe", {"sessionId": session})
            assert await leaver.request("shutdown") is None
            assert (await leaver.refused("hermes/daemon/ping"))["code"] == -32600
            await stayer.say(session, "hello")
            assert (await leaver.refused("shutdown"))["code"] == -32600
            assert leaver.events == []
            leaver.send({"jsonrpc": "2.0", "method": "exit"})
            assert await leaver.closed() == []
            await stayer.say(session, "still here")

    run(story(), loop)


@on_every_loop
def test_who_stops_sending_still_gets_every_answer_it_asked_for(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(initialize=False)
            peer.send(HELLO)
            peer.send({"jsonrpc": "2.0", "id": 2, "method": "hermes/session/create", "params": {"cwd": str(tmp_path)}})
            peer.send({"jsonrpc": "2.0", "id": 3, "method": "hermes/session/list"})
            peer.writer.write_eof()
            said = b"".join(await peer.closed())
            assert said.count(b'"result"') == 3
            assert not daemon.daemon.connections

    run(story(), loop)


@on_every_loop
def test_a_big_answer_reaches_who_stopped_sending(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            for number in range(5):
                ping = {"jsonrpc": "2.0", "id": f"p{number}", "method": "hermes/daemon/ping"}
                peer.send({**ping, "params": {"echo": "x" * 900_000}})
            peer.writer.write_eof()
            await peer.writer.drain()
            assert sum(len(line) for line in await peer.closed()) > 4_500_000

    run(story(), loop)


@on_every_loop
def test_a_message_sent_and_left_alone_is_carried_out(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            watcher = await daemon.peer("watcher")
            session = await watcher.session(str(tmp_path))
            hasty = await daemon.peer("hasty")
            block = [{"type": "text", "text": "do it"}]
            hasty.call("hermes/turn/submit", {"sessionId": session, "key": "k", "input": block})
            await hasty.writer.drain()
            hasty.close()
            assert (await watcher.event("turn.ended"))["data"]["status"] == "completed"

    run(story(), loop)


@on_every_loop
def test_a_reset_in_the_middle_of_a_frame_costs_the_connection_and_no_turn(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            watcher, lost = await daemon.peer("watcher"), await daemon.peer("lost")
            session = await lost.session(str(tmp_path), model="scripted/words?n=300&delay_ms=1")
            await watcher.request("hermes/session/subscribe", {"sessionId": session})
            await lost.submit(session, "go")
            lost.writer.write(b'{"jsonrpc":"2.0","id":9,"meth')
            await watcher.event("item.delta")
            lost.writer.transport.abort()
            ended = await watcher.event("turn.ended")
            assert ended["data"]["status"] == "completed"

    run(story(), loop)


# --- cancellation and limits ---


@on_every_loop
def test_an_id_in_flight_cannot_be_used_again_until_it_is_answered(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            waiting = {"jsonrpc": "2.0", "id": 77, "method": "hermes/session/wait", "params": wait_for(session)}
            peer.send(waiting)
            peer.send(waiting)
            assert "in flight" in (await peer.answer(77))["error"]["message"]
            peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 77}})
            assert (await peer.answer(77))["error"]["code"] == -32800
            peer.send({**waiting, "params": wait_for(session, seq=1)})
            assert (await peer.answer(77))["result"]["reached"] is True

    run(story(), loop)


@on_every_loop
def test_cancel_before_start(tmp_path: Path, loop: str) -> None:
    """The handed case: what was cancelled while it waited ends at once and never starts."""

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            async with daemon.room.sessions.get(session).mailbox.lock:
                submits = [peer.call("hermes/turn/submit", said(session, f"text {number}")) for number in range(30)]
                for id in submits:
                    peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}})
                    peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id + 1000}})
                for id in submits:
                    assert (await peer.answer(id))["error"]["data"]["kind"] == "cancelled"
            assert (await peer.say(session, "the last"))["data"]["status"] == "completed"
            page = await peer.request("hermes/session/items", {"sessionId": session})
            assert [item["text"] for item in page["items"]] == ["the last", "the last"]

    run(story(), loop)


def test_cancelling_a_submit_that_was_admitted_does_not_end_its_turn(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            id = peer.call("hermes/turn/submit", said(session, "hello"))
            started = await peer.event("turn.started")
            peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}})
            assert (await peer.event("turn.ended"))["turnId"] == started["turnId"]

    run(story())


def test_cancelling_what_is_unknown_or_over_is_quietly_ignored(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            await peer.request("hermes/session/list")
            for id in (1, 2, 999, "no", -1):
                peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}})
            await peer.request("hermes/daemon/ping")
            assert len(peer.order) == 3

    run(story())


@on_every_loop
def test_a_connection_has_64_requests_in_flight_and_no_more(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            waiting = [peer.call("hermes/session/wait", wait_for(session)) for _ in range(MAX_IN_FLIGHT)]
            error = await peer.refused("hermes/session/list")
            assert (error["code"], error["data"]["scope"]) == (-32050, "connection")
            assert (await peer.request("hermes/daemon/ping", {"echo": 1}))["echo"] == 1  # never queued behind work
            assert error["data"]["retryAfterMs"] > 0
            assert error["data"]["retryable"] is True
            peer.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": waiting[0]}})
            await peer.answer(waiting[0])
            await peer.request("hermes/session/list")

    run(story(), loop)


def test_a_daemon_has_so_many_requests_in_flight_and_tells_the_rest(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner = await daemon.peer("owner")
            session = await owner.session(str(tmp_path))
            crowd = [await daemon.peer(f"p{number}") for number in range(MAX_IN_FLIGHT_OF_ALL // MAX_IN_FLIGHT)]
            for peer in crowd:
                for _ in range(MAX_IN_FLIGHT):
                    peer.call("hermes/session/wait", wait_for(session))
            for peer in crowd:
                peer.send({"jsonrpc": "2.0", "method": "initialized"})
            while daemon.daemon.in_flight < MAX_IN_FLIGHT_OF_ALL:
                await asyncio.sleep(0)
            error = await owner.refused("hermes/session/list")
            assert (error["code"], error["data"]["scope"]) == (-32050, "daemon")
            crowd[0].close()
            while daemon.daemon.in_flight == MAX_IN_FLIGHT_OF_ALL:
                await asyncio.sleep(0)
            await owner.request("hermes/session/list")

    run(story(), "uvloop")


def test_a_session_takes_so_many_waiting_requests_and_tells_the_rest(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner = await daemon.peer("owner")
            session = await owner.session(str(tmp_path), model="scripted/echo")
            crowd = [await daemon.peer(f"p{number}") for number in range(MAILBOX // MAX_IN_FLIGHT)]
            async with daemon.room.sessions.get(session).mailbox.lock:
                calls = [
                    (peer, peer.call("hermes/session/rename", {"sessionId": session, "title": f"{id(peer)} {number}"}))
                    for peer in crowd
                    for number in range(MAX_IN_FLIGHT)
                ]
                while daemon.daemon.in_flight < MAILBOX:
                    await asyncio.sleep(0)
                error = await owner.refused("hermes/session/rename", {"sessionId": session, "title": "one too many"})
                assert (error["code"], error["data"]["scope"]) == (-32050, "session")
            for peer, call in calls:
                assert "result" in await peer.answer(call)

    run(story())


@on_every_loop
def test_a_client_that_asks_and_does_not_read_is_not_heard_until_it_reads(tmp_path: Path, loop: str) -> None:
    """What waits for it stays near the hard limit, however much it asks for."""
    hard, echo, asked = 500_000, "x" * 50_000, 120

    async def flood(peer: Peer) -> None:
        for number in range(asked):
            ping = {"jsonrpc": "2.0", "id": f"p{number}", "method": "hermes/daemon/ping"}
            peer.send({**ping, "params": {"echo": echo}})
            await peer.writer.drain()

    async def story() -> None:
        config = f"daemon:\n  outbox_soft_bytes: 100000\n  outbox_hard_bytes: {hard}\n"
        async with live(str(tmp_path), config=config) as daemon:
            peer, other = (
                await daemon.peer("flood", small_buffer=True, capabilities={"maxFrameBytes": 65_536}),
                await daemon.peer("other"),
            )
            flooding = asyncio.create_task(flood(peer))
            row = await queued(other, "flood")
            while row["queueBytes"] < hard:
                row = await queued(other, "flood")
            for _ in range(50):
                assert (await queued(other, "flood"))["queueBytes"] < hard + 400_000
            for number in range(asked):
                assert len((await peer.answer(f"p{number}"))["result"]["echo"]) == len(echo)
            await flooding

    run(story(), loop)


async def queued(peer: Peer, name: str) -> dict[str, Any]:
    rows = (await peer.request("hermes/daemon/status"))["connections"]
    row: dict[str, Any] = next(row for row in rows if row["name"] == name)
    return row


def said(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "key": f"key of {text}", "input": [{"type": "text", "text": text}]}


def test_a_ping_overtakes_work_that_waits(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            async with daemon.room.sessions.get(session).mailbox.lock:
                slow = peer.call("hermes/turn/submit", said(session, "hello"))
                assert (await peer.request("hermes/daemon/ping", {"echo": {"a": 1}}))["echo"] == {"a": 1}
            assert "result" in await peer.answer(slow)

    run(story())
