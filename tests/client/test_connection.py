"""One connection: requests, errors, frames of any size, and repair."""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import Any

import msgspec
import pytest

from hermes_client import Connection, Disconnected
from hermes_protocol import methods as m
from hermes_protocol.errors import ProtocolError
from tests.support.client_peer import FakeDaemon, fake_daemon


class States:
    """What a connection said of itself, and a way to wait for more."""

    def __init__(self, connection: Connection) -> None:
        self.seen: list[tuple[str, str]] = []
        self._changed = asyncio.Event()
        connection.on_state(self._note)

    def _note(self, state: str, reason: str) -> None:
        self.seen.append((state, reason))
        self._changed.set()

    async def until(self, state: str) -> None:
        while state not in [name for name, _ in self.seen]:
            self._changed.clear()
            await self._changed.wait()


def test_a_request_gives_its_typed_result() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            pong = await connection.request("hermes/daemon/ping", m.PingParams([1, "é"]), m.PingResult)
            assert pong.echo == [1, "é"]
            assert connection.welcome is not None
            assert connection.welcome.protocol_version == "1.0"

    asyncio.run(run())


def test_an_error_answer_is_raised_with_its_kind_and_details() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            daemon.refuse["hermes/daemon/ping"] = [ProtocolError("already_resolved", "too late", outcome="deny")]
            with pytest.raises(ProtocolError, match="too late") as caught:
                await connection.request("hermes/daemon/ping", None, m.PingResult)
            assert caught.value.kind == "already_resolved"
            assert caught.value.data["outcome"] == "deny"

    asyncio.run(run())


def test_frames_above_64_kib_pass_in_both_directions() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            text = "x" * 3_000_000
            pong = await connection.request("hermes/daemon/ping", m.PingParams(text), m.PingResult)
            assert pong.echo == text

    asyncio.run(run())


def test_answers_may_come_in_any_order() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            asked = [connection.request("hermes/daemon/ping", m.PingParams(n), m.PingResult) for n in range(50)]
            assert [pong.echo for pong in await asyncio.gather(*asked)] == list(range(50))

    asyncio.run(run())


def test_a_cancelled_wait_is_told_to_the_daemon() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            daemon.ignore.add("hermes/daemon/ping")
            waiting = asyncio.create_task(connection.request("hermes/daemon/ping", None, m.PingResult))
            await daemon.asked("hermes/daemon/ping")
            waiting.cancel()
            assert isinstance((await daemon.asked("$/cancelRequest"))["id"], int)

    asyncio.run(run())


def test_a_lost_connection_fails_what_was_asked_and_repairs_itself() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            states = States(connection)
            daemon.ignore.add("hermes/daemon/ping")
            waiting = asyncio.create_task(connection.request("hermes/daemon/ping", None, m.PingResult))
            await daemon.asked("hermes/daemon/ping")
            daemon.drop()
            with pytest.raises(Disconnected):
                await waiting
            daemon.ignore.clear()
            await states.until("ready")
            await connection.request("hermes/daemon/ping", None, m.PingResult)
            first, second = [params["hermes"] for name, params in daemon.requests if name == "initialize"]
            assert first["client"]["id"] == second["client"]["id"]
            assert second["takeover"] is True

    asyncio.run(run())


def test_what_may_be_sent_again_survives_a_restart_of_the_daemon() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            states = States(connection)
            await daemon.stop()
            await states.until("lost")
            waiting = asyncio.create_task(
                connection.request("hermes/daemon/ping", m.PingParams("again"), m.PingResult, resend=True)
            )
            daemon.boot = 2
            await daemon.start()
            assert (await waiting).echo == "again"
            assert connection.welcome is not None
            assert connection.welcome.boot_id == "boot2"

    asyncio.run(run())


def test_an_overloaded_daemon_is_asked_again_after_the_time_it_names() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            daemon.refuse["hermes/daemon/ping"] = [ProtocolError("overloaded", "busy", retryAfterMs=1)] * 2
            await connection.request("hermes/daemon/ping", None, m.PingResult, resend=True)
            daemon.refuse["hermes/daemon/ping"] = [ProtocolError("draining", "going away", restart=False)]
            with pytest.raises(ProtocolError, match="going away"):
                await connection.request("hermes/daemon/ping", None, m.PingResult, resend=True)

    asyncio.run(run())


def test_a_daemon_without_a_common_version_is_an_error_and_not_a_loop() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon:
            daemon.refuse["initialize"] = [ProtocolError("version_unsupported", "no common version", supported=["9"])]
            with pytest.raises(ProtocolError, match="no common version"):
                await Connection.open(daemon.path)

    asyncio.run(run())


def test_a_closed_connection_asks_nothing_more() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon:
            connection = await Connection.open(daemon.path)
            await connection.close()
            for resend in (False, True):
                with pytest.raises(Disconnected):
                    await connection.request("hermes/daemon/ping", None, m.PingResult, resend=resend)

    asyncio.run(run())


def test_without_reconnect_a_lost_connection_is_closed() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path, reconnect=False) as connection:
            states = States(connection)
            daemon.drop()
            await states.until("closed")
            with pytest.raises(Disconnected):
                await connection.ready()

    asyncio.run(run())


def test_no_socket_is_an_error_of_the_system() -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder, pytest.raises(FileNotFoundError):
            await Connection.open(os.path.join(folder, "none.sock"))

    asyncio.run(run())


def test_a_peer_that_does_not_speak_json_rpc_is_left() -> None:
    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")
            server = await asyncio.start_unix_server(chatter, path)
            with pytest.raises(Disconnected, match="does not speak JSON-RPC"):
                await Connection.open(path)
            server.close()

    asyncio.run(run())


def test_notifications_reach_every_listener_in_order() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            seen: list[tuple[str, Any]] = []
            done = asyncio.Event()

            def listen(method: str, params: msgspec.Raw) -> None:
                seen.append((method, msgspec.json.decode(params)["n"]))
                if len(seen) == 3:
                    done.set()

            stop = connection.on_note(listen)
            await notify(daemon, 3)
            await done.wait()
            assert seen == [("test/note", 0), ("test/note", 1), ("test/note", 2)]
            stop()
            await notify(daemon, 1)
            await connection.request("hermes/daemon/ping", None, m.PingResult)
            assert len(seen) == 3

    async def notify(daemon: FakeDaemon, count: int) -> None:
        for n in range(count):
            daemon.peers[0].note("test/note", {"n": n})

    asyncio.run(run())
