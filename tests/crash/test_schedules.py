"""Two thousand crashes in process: a random story of turns is cut behind every write, and what the disk holds is
recovered and judged. HERMES_CRASH_SCHEDULES says how many."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hermes_client import view as views
from hermes_daemon.core import history
from hermes_daemon.core.ports import Store, ToolContext, ToolOutcome
from hermes_daemon.core.settings import AgentSettings, DatabaseSettings, Settings
from hermes_daemon.engine.branch import rewind
from hermes_daemon.engine.emitted import replayed
from hermes_daemon.engine.identity import SystemClock
from hermes_daemon.engine.parts import Parts
from hermes_daemon.engine.session import Session
from hermes_daemon.engine.sessions import Sessions
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.server.engine_room import pulled, snapshot_of
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import By, TextBlock, input_text
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import UserMessage
from hermes_protocol.methods import (
    Answer,
    CreateParams,
    ForkParams,
    InterruptParams,
    QueueParams,
    QueueRemoveParams,
    QueueReorderParams,
    QueueUpdateParams,
    RewindParams,
    SessionOptions,
    SteerParams,
    SubmitParams,
)
from tests.support.crash_log import Acknowledged, Disk, LoggedStore, Moment, Observer, Saw, crashes
from tests.support.folding import comparable
from tests.support.live import ScriptedModels, TestTool, TestTools

SCHEDULES = int(os.environ.get("HERMES_CRASH_SCHEDULES", "2000"))
SEED = int(os.environ.get("HERMES_CRASH_SEED", "20262"))
ME = By("witness", "witness", "native")
MODELS = (
    "scripted/echo",
    "scripted/words?n=60",
    'scripted/tool?name=look&args={"text":"x"}&rounds=2',
    'scripted/tool?name=change&args={"text":"y"}',
    "scripted/hang?text=some words",
    "scripted/fail?kind=rate&times=1&after=2&retry_after=0",
)


async def shout(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    ctx.progress("shouting\n")
    await asyncio.sleep(0)
    return ToolOutcome(f"said {args.get('text')}")


def parts_over(store: Store) -> Parts:
    tools = TestTools([TestTool("look", shout, read_only=True), TestTool("change", shout)])
    settings = Settings(agent=AgentSettings(interrupt_grace_s=1))
    return Parts(store, ScriptedModels(), tools, SystemClock(), lambda: settings, str, Registry(), {})


class Story:
    """Sessions that people work on, in the order they came to be; `taken_back` is what they threw away themselves."""

    def __init__(self, logged: LoggedStore, chance: random.Random) -> None:
        self.sessions = Sessions(parts_over(logged), lambda *_: None)
        self.logged, self.chance = logged, chance
        self.live: list[tuple[Session, Observer]] = []
        self.taken_back: set[str] = set()

    async def tell(self) -> None:
        """A session of each of two random kinds, and people who do what people do; ended like by a stop."""
        for number in range(2):
            options = SessionOptions(model=self.chance.choice(MODELS), mode=self.chance.choice(["off", None]))
            created = await self.sessions.create(CreateParams("/", options=options, key=f"c{number}"), ME)
            self._follow(created.session.session_id)
        for step in range(18):
            session, observer = self.chance.choice(self.live)
            with contextlib.suppress(ProtocolError):  # a turn runs, the answer came too late, the entry began
                await self._act(session, observer, step)
            for _ in range(self.chance.choice([0, 1, 3, 10, 40])):
                await asyncio.sleep(0)
        await self.sessions.interrupt_all("the end", 5)

    def _follow(self, session_id: str) -> None:
        session, observer = self.sessions.get(session_id), Observer(session_id, self.logged.story)
        session.attach(observer)
        self.live.append((session, observer))

    async def _act(self, session: Session, observer: Observer, step: int) -> None:
        dice, text = self.chance.random(), f"message {step}"
        if dice < 0.5:
            await self._submit(session, text)
        elif dice < 0.62:
            if observer.requests:
                answer = Answer(self.chance.choice(["allow_once", "deny"]))
                await session.questions.answer(observer.requests[-1], answer, "x", ME, lambda *_: ())
        elif dice < 0.7:
            leave = self.chance.choice(["keep", "pause", "clear"])
            await session.admission.interrupt(InterruptParams(session.session_id, queue=leave))
        elif dice < 0.76:
            await session.admission.resume(QueueParams(session.session_id))
        elif dice < 0.82:
            forked = await self.sessions.fork(ForkParams(session.session_id, key=text))
            self._follow(forked.session.session_id)
        elif dice < 0.88:
            await self._rewind(session, text)
        elif dice < 0.94:
            await self._edit(session, text)
        else:  # somebody leaves, somebody comes late
            session.detach(observer.connection_id)
            session.attach(observer)

    async def _submit(self, session: Session, text: str) -> None:
        runner = session.runner
        if runner is not None and self.chance.random() < 0.2:
            params = SteerParams(session.session_id, runner.turn_id, (TextBlock(text),), text)
            await session.admission.steer(params, ME)
            return
        how = self.chance.choice(["queue", "queue", "steer", "interrupt"])
        submit = SubmitParams(session.session_id, (TextBlock(text),), text, when_busy=how)
        result = await session.admission.submit(submit, ME)
        self.logged.story.append(Acknowledged(text, result.turn_id, session.session_id))

    async def _rewind(self, session: Session, key: str) -> None:
        if (runner := session.runner) is not None and self.chance.random() < 0.7:
            await session.admission.interrupt(InterruptParams(session.session_id, queue="pause"))
            await runner.wait()
        items = [row.item for row in self.logged.items(session.session_id, limit=1000).rows]
        if items:
            target = self.chance.choice(items)
            behind = items[items.index(target) :]
            self.taken_back |= {item.text for item in behind if isinstance(item, UserMessage)}
            params = RewindParams(session.session_id, target.item_id, session.row.rev, key)
            await rewind(session, params)

    async def _edit(self, session: Session, text: str) -> None:
        queue, admission = session.admission.queue, session.admission
        if not queue.entries:
            return
        entry, session_id = self.chance.choice(queue.entries), session.session_id
        how = self.chance.choice(["remove", "update", "reorder"])
        self.taken_back |= {input_text(entry.input)} if how != "reorder" else set()
        if how == "remove":
            gone = QueueRemoveParams(session_id, entry.queue_id)
            await admission.edit("hermes/queue/remove", gone, lambda: queue.without(gone))
        elif how == "update":
            other = QueueUpdateParams(session_id, entry.queue_id, (TextBlock(f"{text}, rather"),))
            await admission.edit("hermes/queue/update", other, lambda: queue.updated(other))
        else:
            first = QueueReorderParams(session_id, (entry.queue_id,))
            await admission.edit("hermes/queue/reorder", first, lambda: queue.reordered(first))


async def recover(path: Path) -> tuple[SqliteStore, Sessions]:
    store = SqliteStore.open(str(path), DatabaseSettings(), SystemClock())
    sessions = Sessions(parts_over(store), lambda *_: None)
    await sessions.recover()
    return store, sessions


def judge(store: SqliteStore, session_id: str, told: list[Moment], cleared: set[str]) -> int:
    """Judge one session that was recovered; its newest number."""
    assert not store.open_items(session_id)
    assert history.check(store.messages(session_id)) == []
    rows = store.events(session_id, 0, 100_000)
    order = [(row.kind, msgspec.json.decode(row.data)) for row in rows]
    started = Counter(data["turnId"] for kind, data in order if kind == "turn.started")
    ended = Counter(row.turn_id for row in rows if row.kind == "turn.ended")
    assert started == ended
    assert not started or max(started.values()) == 1
    asked = Counter(data["requestId"] for kind, data in order if kind == "request.opened")
    assert asked == Counter(data["requestId"] for kind, data in order if kind == "request.resolved")
    completed = Counter(row.item_id for row in rows if row.kind == "item.completed")
    assert not completed or max(completed.values()) == 1
    by_number = {row.seq: bytes(row.data) for row in rows if not row.delta}
    highest = 0
    for moment in told:
        if isinstance(moment, Saw) and moment.session_id == session_id:
            highest = max(highest, moment.seq)
            if moment.body and moment.seq in by_number:
                assert by_number[moment.seq] == moment.body, f"number {moment.seq} was given twice"
    judge_texts(store, session_id, told, cleared)
    fresh = [row.seq for row, (kind, data) in zip(rows, order, strict=True) if data.get("status") == "lost"]
    assert all(number > highest for number in fresh)
    return rows[-1].seq if rows else 0


def judge_views(session: Session, store: Store) -> None:
    """Who joins now sees what who heard everything sees. What a fork had from its parent is in no event."""
    shown = views.from_snapshot(snapshot_of(session, 1000, 10_000_000))
    rows = [replayed(row) for row in store.events(session.session_id, 0, 100_000)]
    if rows and rows[0].seq == 1:
        view = views.empty(session.session_id)
        for event in rows:
            view = views.apply(view, pulled(event, session.session_id, session.row.epoch, 0, 10_000_000))
        assert comparable(view) == comparable(shown)


def judge_texts(store: SqliteStore, session_id: str, told: list[Moment], cleared: set[str]) -> None:
    queue = store.queue(session_id)
    entries = queue.entries if queue else ()
    said = Counter(message.text for message in store.messages(session_id) if message.role == "user")
    shown = Counter(
        row.item.text for row in store.items(session_id, limit=1000).rows if isinstance(row.item, UserMessage)
    )
    assert said == shown
    waiting = Counter(entry.input[0].text for entry in entries)
    both = said + waiting
    assert not both or max(both.values()) == 1
    for moment in told:
        if isinstance(moment, Acknowledged) and moment.session_id == session_id:
            assert both[moment.text] == 1 or moment.text in cleared, f"{moment.text!r} is gone"
            assert store.receipt(session_id, "hermes/turn/submit", moment.text) is not None
    turns = [entry.turn_id for entry in entries]
    assert len(set(turns)) == len(turns)
    assert all(entry.kind == "turn" for entry in entries)
    assert not entries or (queue is not None and queue.paused)


async def crash_everywhere(folder: Path, seed: int, enough: Callable[[], bool], done: Callable[[], None]) -> None:
    chance = random.Random(seed)
    store = SqliteStore.open(str(folder / "live.db"), DatabaseSettings(), SystemClock())
    logged = LoggedStore(store)
    story = Story(logged, chance)
    await story.tell()
    await store.close()
    cleared = texts_cleared(logged) | story.taken_back
    disk, applied = Disk(folder / "disk"), 0
    order = sorted(crashes(logged, chance), key=lambda crash: crash[1])
    for position, kept in order:
        if enough():
            break
        while applied < kept:
            await disk.apply(logged.writes[applied][0])
            applied += 1
        await one_crash(disk.copy(), logged.story[:position], cleared, next_turn=chance.random() < 0.1)
        done()
    await disk.close()


def texts_cleared(logged: LoggedStore) -> set[str]:
    """What people threw away themselves, with the queue."""
    ended = [moment for moment in logged.story if isinstance(moment, Saw) and moment.kind == "turn.ended"]
    return {text for moment in ended for text in msgspec.json.decode(moment.body).get("dropped", ())}


async def one_crash(path: Path, told: list[Moment], cleared: set[str], *, next_turn: bool) -> None:
    store, sessions = await recover(path)
    try:
        assert not store.open_turns()
        assert not store.open_requests()
        ids = [row.session_id for row in store.sessions(limit=10).rows]
        assert {moment.session_id for moment in told if isinstance(moment, Acknowledged)} <= set(ids)
        newest = {session_id: judge(store, session_id, told, cleared) for session_id in ids}
        for session_id in ids:
            judge_views(sessions.get(session_id), store)
        await Sessions(parts_over(store), lambda *_: None).recover()
        assert {session_id: store.event_range(session_id)[1] for session_id in ids} == newest, "recovered twice"
        if next_turn:
            for session_id in ids:
                await take_a_turn(sessions.get(session_id), store)
    finally:
        await store.close()
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


async def take_a_turn(session: Session, store: SqliteStore) -> None:
    session.row = msgspec.structs.replace(session.row, options=SessionOptions(model="scripted/echo"))
    await session.admission.resume(QueueParams(session.session_id))
    await session.admission.submit(SubmitParams(session.session_id, (TextBlock("and now?"),), "next"), ME)
    await session.admission.idle()
    assert not session.admission.queue
    last = store.messages(session.session_id)[-1]
    assert (last.role, last.text) == ("assistant", "and now?")
    assert history.check(store.messages(session.session_id)) == []


def test_whatever_write_a_crash_comes_behind_nothing_is_lost_and_nothing_doubled() -> None:
    count = 0

    def done() -> None:
        nonlocal count
        count += 1

    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    story = 0
    while count < SCHEDULES:
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            asyncio.run(crash_everywhere(Path(folder), SEED + story, lambda: count >= SCHEDULES, done))
        story += 1
    assert count == SCHEDULES
