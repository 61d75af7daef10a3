"""What one can do to a session beside submitting."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from hermes_client import Connection, Session
from hermes_client.view import from_snapshot
from hermes_protocol import methods as m
from hermes_protocol.content import input_text
from hermes_protocol.errors import ProtocolError
from tests.support.client_peer import FakeDaemon, fake_daemon


async def followed(daemon: FakeDaemon, connection: Connection) -> Session:
    return await Session.open(connection, "s1")


async def same(daemon: FakeDaemon, session: Session) -> bool:
    await session.connection.request("hermes/daemon/ping", None, m.PingResult)
    return session.view == from_snapshot(daemon.journal.snapshot())


def test_a_rewind_names_the_revision_seen_and_gives_the_words_back() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await followed(daemon, connection)
            await session.run("one")
            await session.run("two")
            asked = next(item for item in session.view.items if session.view.text(item) == "two")
            result = await session.rewind(asked.item_id)
            assert (result.removed, input_text(result.input)) == (2, "two")
            assert [session.view.text(item) for item in session.view.items] == ["one", "one"]
            assert await same(daemon, session)
            with pytest.raises(ProtocolError) as caught:
                await session.rewind(session.view.items[0].item_id, expect_rev=77)
            assert caught.value.kind == "stale_revision"

    asyncio.run(run())


def test_a_rewind_to_before_the_tail_is_read_from_a_snapshot() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            for text in ("one", "two", "three"):
                daemon.echo(text, daemon.journal.new_id("t"))
            daemon.flush()
            session = await Session.open(connection, "s1", tail=2)
            changes = session.changes()
            daemon.journal.rewind(daemon.journal.items[1].item_id)
            daemon.flush()
            async for change in changes:
                if change.event is None:
                    break
            assert [session.view.text(item) for item in session.view.items] == ["one", "one"]

    asyncio.run(run())


def test_steering_is_bound_to_the_running_turn() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await followed(daemon, connection)
            with pytest.raises(ProtocolError) as caught:
                await session.steer("now")
            assert caught.value.kind == "turn_mismatch"
            turn_id = daemon.journal.start_turn("go")
            daemon.flush()
            changes = session.changes()
            await changes.__anext__()
            await session.steer("left")
            assert (await daemon.asked("hermes/turn/steer"))["turnId"] == turn_id

    asyncio.run(run())


def test_the_queue_is_edited_ordered_and_emptied() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await followed(daemon, connection)
            first, second = daemon.journal.enqueue("a"), daemon.journal.enqueue("b")
            daemon.flush()
            await session.queue.update(first.queue_id, "A", expect_rev=2)
            ordered = await session.queue.reorder([second.queue_id])
            assert [input_text(entry.input) for entry in ordered.queue] == ["b", "A"]
            with pytest.raises(ProtocolError) as caught:
                await session.queue.remove(first.queue_id, expect_rev=1)
            assert caught.value.kind == "stale_revision"
            await session.queue.remove(second.queue_id)
            assert not (await session.queue.resume()).paused
            assert [input_text(entry.input) for entry in (await session.queue.list()).queue] == ["A"]
            assert await same(daemon, session)

    asyncio.run(run())


def test_a_fork_is_followed() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await followed(daemon, connection)
            daemon.extra["hermes/session/fork"] = lambda _: m.CreateResult(daemon.journal.session, 1, "e1")
            forked = await session.fork("i1", title="another way")
            asked = await daemon.asked("hermes/session/fork")
            assert (asked["atItemId"], asked["title"]) == ("i1", "another way")
            assert forked.view.session.session_id == "s1"
            assert (await session.archive()).session.archived
            assert not (await session.archive(False)).session.archived

    asyncio.run(run())


def test_events_are_pulled_page_by_page() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await followed(daemon, connection)
            for n in range(7):
                daemon.journal.update(title=str(n))
            daemon.flush()
            assert [event.seq async for event in session.events(limit=3)] == list(range(1, 9))
            assert [event.seq async for event in session.events(6)] == [7, 8]

    asyncio.run(run())


class Store:
    """The daemon's side of blobs."""

    def __init__(self) -> None:
        self.held = b""

    def create(self, params: dict[str, Any]) -> m.BlobCreateResult:
        import base64

        asked = msgspec.convert(params, m.BlobCreateParams)
        assert asked.offset == len(self.held)
        self.held += base64.b64decode(asked.data) if asked.encoding == "base64" else asked.data.encode()
        return m.BlobCreateResult("b1", len(self.held))

    def read(self, params: dict[str, Any]) -> m.BlobReadResult:
        import base64

        asked = msgspec.convert(params, m.BlobReadParams)
        end = min(len(self.held), asked.offset + asked.limit)
        data = base64.b64encode(self.held[asked.offset : end]).decode()
        return m.BlobReadResult(data, end == len(self.held), len(self.held), end)


@pytest.mark.parametrize("data", [b"\x00\xff" * 400_000, "é😀x" * 100_000, "", b""])
def test_a_blob_goes_and_comes_in_pieces(data: bytes | str) -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session, store = await followed(daemon, connection), Store()
            daemon.extra.update({"hermes/blob/create": store.create, "hermes/blob/read": store.read})
            blob_id = await session.blobs.create(data)
            assert await session.blobs.read(blob_id) == (data.encode() if isinstance(data, str) else data)

    asyncio.run(run())


def test_a_daemon_without_a_method_is_told_in_a_sentence() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await followed(daemon, connection)
            with pytest.raises(ProtocolError) as caught:
                await session.fork()
            assert (
                caught.value.message
                == "the daemon (build build) is older than this client: it has no hermes/session/fork."
            )
            assert "hermes daemon restart" in caught.value.data["hint"]

    asyncio.run(run())


def test_detail_is_asked_for() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            await Session.open(connection, "s1", detail="status")
            assert (await daemon.asked("hermes/session/subscribe"))["detail"] == "status"

    asyncio.run(run())


async def serving(daemon: FakeDaemon, connection: Connection, registered: list[dict[str, Any]]) -> Session:
    def register(params: dict[str, Any]) -> m.RegisterResult:
        registered.append(params)
        return m.RegisterResult(tuple(tool["name"] for tool in params.get("tools", ())))

    daemon.extra["hermes/session/register"] = register
    return await followed(daemon, connection)


CAN_SERVE = m.Capabilities(requests=("clientTool",))


def test_a_tool_is_served_and_its_failures_are_told() -> None:
    async def run() -> None:
        async with (
            fake_daemon() as daemon,
            await Connection.open(daemon.path, capabilities=CAN_SERVE) as connection,
        ):
            registered: list[dict[str, Any]] = []
            session = await serving(daemon, connection, registered)

            async def add(given: dict[str, Any]) -> int:
                return int(given["a"]) + int(given["b"])

            await session.serve_tool("add", "Adds.", {"type": "object"}, add, read_only=True)
            assert registered[0]["tools"][0]["readOnly"] is True
            daemon.journal.start_turn("go")
            for name, args in (("add", '{"a": 1, "b": 2}'), ("add", "{}"), ("gone", "{}")):
                daemon.journal.ask_people("clientTool", name=name, args=args, call_id="c", connection_id="c1")
            daemon.journal.ask_people("clientTool", name="add", args="{}", connection_id="of another")
            daemon.flush()
            await daemon.asked("hermes/request/answer", 3)
            answers = [params["answer"] for method, params in daemon.requests if method == "hermes/request/answer"]
            assert {"result": 3} in answers
            assert {"error": "KeyError: 'a'"} in answers
            assert {"error": "gone is not offered here any more"} in answers
            await session.close()

    asyncio.run(run())


def test_an_interrupted_call_is_cancelled_and_tools_are_offered_again_after_a_reconnect() -> None:
    async def run() -> None:
        async with (
            fake_daemon() as daemon,
            await Connection.open(daemon.path, capabilities=CAN_SERVE) as connection,
        ):
            registered: list[dict[str, Any]] = []
            session = await serving(daemon, connection, registered)
            begun, cancelled = asyncio.Event(), asyncio.Event()

            async def hang(_: dict[str, Any]) -> None:
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()

            await session.serve_tool("hang", "Waits.", {"type": "object"}, hang)
            daemon.journal.start_turn("go")
            daemon.journal.ask_people("clientTool", name="hang", args="{}", connection_id="c1")
            daemon.flush()
            async with asyncio.timeout(10):
                await begun.wait()
                daemon.journal.end_turn("interrupted")
                daemon.flush()
                await cancelled.wait()
                daemon.drop()
                await daemon.asked("hermes/session/register", 2)
            assert registered[0] == registered[1]
            await session.close()

    asyncio.run(run())


def test_tools_need_a_connection_that_answers_calls() -> None:
    async def run() -> None:
        async with fake_daemon() as daemon, await Connection.open(daemon.path) as connection:
            session = await followed(daemon, connection)

            async def nothing(_: dict[str, Any]) -> None: ...

            with pytest.raises(ValueError, match="clientTool"):
                await session.serve_tool("x", "X.", {}, nothing)

    asyncio.run(run())
