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

from hermes_daemon.core import history
from hermes_daemon.core.ports import Store, ToolContext, ToolOutcome
from hermes_daemon.core.settings import AgentSettings, DatabaseSettings, Settings
from hermes_daemon.engine.identity import SystemClock
from hermes_daemon.engine.parts import Parts
from hermes_daemon.engine.session import Session
from hermes_daemon.engine.sessions import Sessions
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import By, TextBlock
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import UserMessage
from hermes_protocol.methods import Answer, CreateParams, InterruptParams, QueueParams, SessionOptions, SubmitParams
from tests.support.crash_log import Acknowledged, Disk, LoggedStore, Moment, Observer, Saw, crashes
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


async def tell_story(logged: LoggedStore, chance: random.Random) -> None:
    """A session of each of two random kinds, and people who do what people do; ended like by a stop."""
    sessions = Sessions(parts_over(logged), lambda *_: None)
    live: list[tuple[Session, Observer]] = []
    for number in range(2):
        options = SessionOptions(model=chance.choice(MODELS), mode=chance.choice(["off", None]))
        created = await sessions.create(CreateParams("/", options=options, key=f"c{number}"), ME)
        session = sessions.get(created.session.session_id)
        observer = Observer(session.session_id, logged.story)
        session.attach(observer)
        live.append((session, observer))
    for step in range(14):
        session, observer = chance.choice(live)
        await act(session, observer, f"message {step}", chance, logged.story)
        for _ in range(chance.choice([0, 1, 3, 10, 40])):
            await asyncio.sleep(0)
    await sessions.interrupt_all("the end", 5)


async def act(session: Session, observer: Observer, text: str, chance: random.Random, story: list[Moment]) -> None:
    dice = chance.random()
    if dice < 0.6:
        how = chance.choice(["queue", "queue", "steer", "interrupt"])
        params = SubmitParams(session.session_id, (TextBlock(text),), text, when_busy=how)
        result = await session.admission.submit(params, ME)
        story.append(Acknowledged(text, result.turn_id, session.session_id))
    elif dice < 0.8 and observer.requests:
        option = chance.choice(["allow_once", "deny"])
        with contextlib.suppress(ProtocolError):  # it may be answered already
            await session.questions.answer(observer.requests[-1], Answer(option), "x", ME, lambda *_: ())
    elif dice < 0.9:
        leave = chance.choice(["keep", "pause", "clear"])
        await session.admission.interrupt(InterruptParams(session.session_id, queue=leave))
    else:
        await session.admission.resume(QueueParams(session.session_id))


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
    await tell_story(logged, chance)
    await store.close()
    cleared = texts_cleared(logged)
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
