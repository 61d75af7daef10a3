"""A daemon's side of the native dialect over a real unix socket, for tests of clients: one session, with faults."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from typing import Any, get_type_hints

import msgspec

from hermes_protocol import events as e
from hermes_protocol import methods as m
from hermes_protocol.content import By, TextBlock
from hermes_protocol.errors import ProtocolError
from tests.support.client_journal import ME, Journal


class Peer:
    """One client's connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.client = m.Client()
        self.last: int | None = None

    def send(self, message: dict[str, Any]) -> None:
        self.writer.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")

    def note(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def event(self, event: e.Event) -> None:
        if self.last is not None:
            self.note("hermes/event", msgspec.structs.replace(event, prev=self.last))
            self.last = event.seq


class FakeDaemon:
    """`journal` is its one session; `requests` every request that came; `on_submit(text, turn_id)` acts a turn out."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.journal = Journal()
        self.sent = 1
        self.peers: list[Peer] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.receipts: dict[str, m.SubmitResult] = {}
        self.on_submit: Callable[[str, str], None] = self.echo
        self.refuse: dict[str, list[ProtocolError]] = {}
        self.ignore: set[str] = set()
        self.retained_from = 0
        self.extra: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.boot = 1
        self._server: asyncio.Server | None = None
        self._arrived = asyncio.Condition()

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=2**24)

    async def stop(self) -> None:
        """Everything at once, as after a kill: the socket refuses, connections end."""
        if self._server is not None:
            self._server.close()
            self._server = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.drop()

    def drop(self) -> None:
        """Cut every connection."""
        for peer in self.peers:
            peer.writer.transport.abort()

    async def asked(self, method: str, times: int = 1) -> dict[str, Any]:
        """Wait until `method` came `times` times; gives the params of the last."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: sum(1 for name, _ in self.requests if name == method) >= times)
        return [params for name, params in self.requests if name == method][-1]

    def flush(self) -> None:
        """Send what the journal holds and nobody got yet."""
        for event in self.journal.events[self.sent :]:
            for peer in self.peers:
                peer.event(event)
        self.sent = len(self.journal.events)

    def lose(self) -> None:
        """The last events never reach anybody although they count as delivered: the chain shows it."""
        self.sent = len(self.journal.events)
        for peer in self.peers:
            if peer.last is not None:
                peer.last = self.sent

    def echo(self, text: str, turn_id: str) -> None:
        self.journal.start_turn(text, turn_id)
        answer = self.journal.start_message()
        self.journal.delta(answer, text)
        self.journal.complete(answer)
        self.journal.end_turn()

    # --- one connection -----------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(writer)
        self.peers.append(peer)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while line := await reader.readline():
                await self._frame(peer, msgspec.json.decode(line))
        self.peers.remove(peer)
        writer.close()

    async def _frame(self, peer: Peer, frame: dict[str, Any]) -> None:
        method, params = frame["method"], frame.get("params", {})
        if method not in self.ignore and "id" in frame:
            try:
                waiting = self.refuse.get(method)
                if waiting:
                    raise waiting.pop(0)
                result = self._answer(peer, method, params)
                peer.send({"id": frame["id"], "result": result})
            except ProtocolError as refused:
                peer.send({"id": frame["id"], "error": refused.as_object()})
            if method == "hermes/session/subscribe":
                for event in self.journal.events[peer.last or 0 : self.sent]:
                    peer.event(event)
            self.flush()
        async with self._arrived:
            self.requests.append((method, params))
            self._arrived.notify_all()

    def _answer(self, peer: Peer, method: str, params: dict[str, Any]) -> Any:
        handler = self.extra.get(method) or getattr(self, "_" + method.replace("/", "_"), None)
        if handler is None:
            raise ProtocolError("method_not_found", f"no method {method}")
        if method in self.extra:
            return handler(params)
        asked = get_type_hints(handler)["params"]
        return handler(peer, msgspec.convert(params, asked))

    def _initialize(self, peer: Peer, params: m.InitializeParams) -> m.InitializeResult:
        assert params.hermes is not None
        peer.client = params.hermes.client
        welcome = m.Welcome("1.0", f"boot{self.boot}", "build", False, "hash", "c1", m.Limits(), (), ("permission",))
        return m.InitializeResult(
            m.ServerInfo("hermes-daemon", "0"), m.ServerCapabilities(m.ExperimentalCapabilities(welcome))
        )

    def _hermes_session_create(self, peer: Peer, params: m.CreateParams) -> m.CreateResult:
        return m.CreateResult(self.journal.session, 1, self.journal.epoch)

    def _hermes_session_subscribe(self, peer: Peer, params: m.SubscribeParams) -> m.SubscribeResult:
        if params.session_id != self.journal.session.session_id:
            raise ProtocolError("session_not_found", f"no session {params.session_id}")
        head, since = self.sent, params.since
        if since and since.epoch == self.journal.epoch and self.retained_from <= since.seq <= head:
            peer.last = since.seq
            return m.SubscribeResult("replay", self.journal.epoch, since.seq, head)
        peer.last = head
        return m.SubscribeResult("snapshot", self.journal.epoch, head, head, self.journal.snapshot(params.tail))

    def _hermes_session_unsubscribe(self, peer: Peer, params: m.SessionParams) -> m.Empty:
        if params.session_id == self.journal.session.session_id:
            peer.last = None
        return m.Empty()

    def _hermes_turn_submit(self, peer: Peer, params: m.SubmitParams) -> m.SubmitResult:
        known = self.receipts.get(params.key)
        if known is not None:
            return msgspec.structs.replace(known, duplicate=True)
        (block,) = params.input
        assert isinstance(block, TextBlock)
        by = By(peer.client.id, peer.client.name, "chat")
        if self.journal.turn is not None:
            entry = self.journal.enqueue(block.text, by)
            receipt = m.SubmitResult("queued", entry.turn_id, self.sent, queue_id=entry.queue_id)
        else:
            turn_id, self.journal.author = self.journal.new_id("t"), by
            self.on_submit(block.text, turn_id)
            receipt = m.SubmitResult("started", turn_id, self.sent)
        self.receipts[params.key] = receipt
        return receipt

    def _hermes_turn_interrupt(self, peer: Peer, params: m.InterruptParams) -> m.InterruptResult:
        if self.journal.turn is None:
            return m.InterruptResult("notActive", self.sent)
        turn_id = self.journal.turn.turn_id
        self.journal.end_turn("interrupted")
        return m.InterruptResult("interrupting", self.sent, turn_id)

    def _hermes_request_answer(self, peer: Peer, params: m.AnswerParams) -> m.AnswerResult:
        row = next((row for row in self.journal.requests if row.request_id == params.request_id), None)
        if row is None:
            raise ProtocolError("already_resolved", "answered already", outcome="deny")
        if row.kind != "permission":
            return self._people_answered(peer, row, params.answer)
        option = next((option for option in row.options if option.id == params.answer.option_id), None)
        if option is None:
            raise ProtocolError("invalid_params", "$.answer.optionId: not offered")
        by = By(peer.client.id, peer.client.name, "chat") if peer.client.id else ME
        self.journal.resolve(row.request_id, option.kind, by, params.answer.feedback)
        return m.AnswerResult("accepted", self.sent, option.kind)

    def _people_answered(self, peer: Peer, row: e.RequestOpened, answer: m.Answer) -> m.AnswerResult:
        by = By(peer.client.id, peer.client.name, "chat")
        for question_id, one in (answer.answers or {}).items():
            if any(status.id == question_id for status in self._row(row.request_id).answered):
                raise ProtocolError("already_resolved", f"{question_id} is answered already", outcome="answered")
            self.journal.answer_one(row.request_id, question_id, one, by)
        if answer.answers is None:
            self.journal.resolve(row.request_id, "declined" if answer.decline else "answered", by)
        return m.AnswerResult("accepted", self.sent, "answered")

    def _row(self, request_id: str) -> e.RequestOpened:
        return next(row for row in self.journal.requests if row.request_id == request_id)

    def _hermes_session_rewind(self, peer: Peer, params: m.RewindParams) -> m.RewindResult:
        if params.expect_rev != self.journal.session.rev:
            raise ProtocolError("stale_revision", "the session changed meanwhile", rev=self.journal.session.rev)
        item = next((item for item in self.journal.items if item.item_id == params.to_item_id), None)
        if item is None:
            raise ProtocolError("item_not_found", f"no item {params.to_item_id}")
        removed = self.journal.rewind(params.to_item_id)
        taken = item.input if isinstance(item, e.UserMessage) else ()
        return m.RewindResult(self.journal.session.rev, removed, self.sent, taken)

    def _hermes_session_archive(self, peer: Peer, params: m.ArchiveParams) -> m.GetResult:
        self.journal.update(archived=params.archived)
        return m.GetResult(self.journal.session, self.journal.options, "idle", self.journal.epoch, self.sent)

    def _hermes_session_events(self, peer: Peer, params: m.EventsParams) -> m.EventsResult:
        events = self.journal.events[params.after : params.after + params.limit]
        more = params.after + len(events) < len(self.journal.events)
        return m.EventsResult(tuple(events), len(self.journal.events), more)

    def _hermes_turn_steer(self, peer: Peer, params: m.SteerParams) -> m.SteerResult:
        running = self.journal.turn
        if running is None or running.turn_id != params.turn_id:
            raise ProtocolError("turn_mismatch", "another turn is active", activeTurnId=self.journal.turn_id)
        (block,) = params.input
        assert isinstance(block, TextBlock)
        entry = self.journal.enqueue(block.text, By(peer.client.id, peer.client.name, "chat"))
        return m.SteerResult("accepted", entry.queue_id, self.sent)

    def _queue_result(self) -> m.QueueResult:
        return m.QueueResult(tuple(self.journal.queue), self.journal.queue_rev, self.journal.paused)

    def _entry(self, queue_id: str, expected: int | None) -> None:
        if expected is not None and expected != self.journal.queue_rev:
            raise ProtocolError("stale_revision", "the queue changed meanwhile", rev=self.journal.queue_rev)
        if not any(entry.queue_id == queue_id for entry in self.journal.queue):
            raise ProtocolError("queue_not_found", f"no queued input {queue_id}")

    def _hermes_queue_list(self, peer: Peer, params: m.QueueParams) -> m.QueueResult:
        return self._queue_result()

    def _hermes_queue_update(self, peer: Peer, params: m.QueueUpdateParams) -> m.QueueResult:
        self._entry(params.queue_id, params.expect_queue_rev)
        (block,) = params.input
        assert isinstance(block, TextBlock)
        self.journal.edit(params.queue_id, block.text)
        return self._queue_result()

    def _hermes_queue_reorder(self, peer: Peer, params: m.QueueReorderParams) -> m.QueueResult:
        for queue_id in params.order:
            self._entry(queue_id, params.expect_queue_rev)
        self.journal.reorder(list(params.order))
        return self._queue_result()

    def _hermes_queue_remove(self, peer: Peer, params: m.QueueRemoveParams) -> m.QueueResult:
        self._entry(params.queue_id, params.expect_queue_rev)
        self.journal.drop(params.queue_id)
        return self._queue_result()

    def _hermes_queue_resume(self, peer: Peer, params: m.QueueParams) -> m.QueueResult:
        self.journal.pause(False)
        return self._queue_result()

    def _hermes_session_setOption(self, peer: Peer, params: m.SetOptionParams) -> m.SetOptionResult:
        self.journal.set_option(params.id, params.value)
        if params.id == "model":
            self.journal.update(model=str(params.value))
        return m.SetOptionResult(self.journal.options, self.journal.session.rev, self.sent)

    def _hermes_session_rename(self, peer: Peer, params: m.RenameParams) -> m.GetResult:
        self.journal.update(title=params.title)
        return m.GetResult(self.journal.session, self.journal.options, "idle", self.journal.epoch, self.sent)

    def _hermes_session_get(self, peer: Peer, params: m.SessionParams) -> m.GetResult:
        if params.session_id != self.journal.session.session_id:
            raise ProtocolError("session_not_found", f"no session {params.session_id}")
        return m.GetResult(self.journal.session, self.journal.options, "idle", self.journal.epoch, self.sent)

    def _hermes_session_list(self, peer: Peer, params: m.ListParams) -> m.ListResult:
        return m.ListResult((self.journal.session,))

    def _hermes_daemon_ping(self, peer: Peer, params: m.PingParams) -> m.PingResult:
        return m.PingResult(1.0, params.echo)


@contextlib.asynccontextmanager
async def fake_daemon() -> AsyncIterator[FakeDaemon]:
    """A FakeDaemon listening in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        daemon = FakeDaemon(os.path.join(folder, "d.sock"))
        await daemon.start()
        try:
            yield daemon
        finally:
            await daemon.stop()
