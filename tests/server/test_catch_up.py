"""A reader that missed much holds a place in the journal, not events: it is told page by page as it takes them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_client import view as views
from hermes_daemon.core.records import PutItem
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.feed import Feed
from hermes_daemon.server.daemon import rss_bytes
from hermes_daemon.server.outbox import PAGE, Outbox, Subscription
from hermes_protocol.events import AgentMessage, Event, ItemCompleted, ItemStarted, Notice, UserMessage
from tests.support.folding import Follower
from tests.support.live import live
from tests.support.loops import on_every_loop, run
from tests.support.store_rows import NOON, HandClock, open_store, put_session

MIB = 1_048_576
QUIET = "scripted/words?n=1&context=900000000"


@on_every_loop
def test_twenty_stalled_readers_that_replay_4_mib_each_cost_a_page_each(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner = await daemon.peer("owner")
            session = await owner.session(str(tmp_path), model=QUIET)
            for number in range(40):  # a message stands once in turn.started and twice in item.completed
                await owner.say(session, f"{number} " + "x" * 33_000)
            known = await owner.request("hermes/session/get", {"sessionId": session})
            since = (known["epoch"], 0)
            readers = [await daemon.peer(f"reader{number}", small_buffer=True) for number in range(20)]
            followers = [Follower(reader, session) for reader in readers]
            before = rss_bytes()
            for follower in followers:
                assert (await follower.subscribe(since=since))["mode"] == "replay"
            await owner.say(session, "and now live")
            status = await owner.request("hermes/daemon/status")
            queued = [row["queueBytes"] for row in status["connections"] if row["name"].startswith("reader")]
            assert len(queued) == 20
            assert all(size <= PAGE + 100_000 for size in queued)  # and the frame that stepped over it
            assert rss_bytes() - before < 20 * 1.5 * MIB
            head = (await owner.request("hermes/session/get", {"sessionId": session}))["head"]
            for follower in followers:
                view = await follower.until(head)
                said = [item.text.split()[0] for item in view.items if isinstance(item, UserMessage)]
                assert said == [*map(str, range(40)), "and"]

    run(story(), loop)


def test_who_missed_more_than_4_mib_gets_a_snapshot(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner = await daemon.peer("owner")
            session = await owner.session(str(tmp_path), model=QUIET)
            for _ in range(8):
                await owner.say(session, "x" * 290_000)
            known = await owner.request("hermes/session/get", {"sessionId": session})
            result = await Follower(owner, session).subscribe(since=(known["epoch"], 0))
            assert (result["mode"], result["seq"]) == ("snapshot", known["head"])

    run(story())


def test_a_journal_that_was_pruned_under_a_reader_that_is_behind_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config="database:\n  retain_events: 1\n") as daemon:
            owner, slow = await daemon.peer("owner"), await daemon.peer("slow", small_buffer=True)
            session = await owner.session(str(tmp_path), model=QUIET)
            for number in range(4):
                await owner.say(session, f"{number} " + "x" * 290_000)
            known = await owner.request("hermes/session/get", {"sessionId": session})
            follower = Follower(slow, session)
            await follower.subscribe(since=(known["epoch"], 0))
            import sqlite3

            connection = sqlite3.connect(tmp_path / "state.db")
            connection.execute("DELETE FROM events WHERE seq < ?", (known["head"],))
            connection.commit()
            connection.close()
            desync = await slow.note("hermes/desync")
            follower.catch_up()
            assert desync == {"sessionId": session, "lastSeq": follower.last, "reason": "journal"}
            assert (await follower.subscribe(since=(follower.epoch, follower.last)))["mode"] == "snapshot"
            await owner.say(session, "live again")
            await slow.event("turn.ended")

    run(story())


# --- the law ---

STEPS = st.one_of(
    st.tuples(st.just("notice"), st.sampled_from([1, 100, 30_000])),
    st.tuples(st.just("start"), st.just(0)),
    st.tuples(st.just("settle"), st.just(0)),
    st.tuples(st.just("say"), st.sampled_from([1, 7, 20_000])),
    st.tuples(st.just("complete"), st.just(0)),
    st.tuples(st.just("join"), st.floats(0, 1)),
    st.tuples(st.just("breathe"), st.integers(1, 3)),
    st.tuples(st.just("pause"), st.integers(0, 9)),
    st.tuples(st.just("resume"), st.integers(0, 9)),
)


class Reader:
    """A subscription over an outbox of its own whose socket the test stops and lets go."""

    def __init__(self, feed: Feed, last: int, view: views.View, latency: float) -> None:
        self.frames: list[bytes] = []
        self.outbox = Outbox(self.frames.append, soft=50_000, hard=200_000)
        self.outbox.latency = latency
        self.last, self.view, self.most = last, view, 0
        self.subscription = Subscription(self.outbox, "c", feed, "full", frozenset(), last)
        feed.flush_tick()
        feed.listen([*feed.sinks, self.subscription])
        asyncio.get_running_loop().call_soon(self.subscription.release)

    def read(self) -> views.View:
        self.most = max(self.most, self.outbox.bytes)
        lines = b"".join(self.frames).splitlines()
        self.frames.clear()
        for line in lines:
            frame: Any = msgspec.json.decode(line)
            if frame["method"] != "hermes/event":
                continue
            event = msgspec.json.decode(msgspec.json.encode(frame["params"]), type=Event)
            assert event.prev == self.last < event.seq
            self.last = event.seq
            self.view = views.apply(self.view, event)
        return self.view


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(STEPS, min_size=5, max_size=60),
    latency=st.sampled_from([0.0, 0.001]),
)
def test_whoever_joins_anywhere_and_reads_at_any_pace_is_told_everything_in_order(
    tmp_path_factory: Any, steps: list[tuple[str, Any]], latency: float
) -> None:
    run(_joining(tmp_path_factory.mktemp("feed") / "state.db", steps, latency))


async def _joining(path: Path, steps: list[tuple[str, Any]], latency: float) -> None:
    store = open_store(path, HandClock())
    await store.write(put_session())
    feed = Feed("s1", "e1", store, HandClock(), ceiling=0, head=0)
    reference = Reader(feed, 0, views.empty("s1"), latency)
    known = [(0, reference.view)]
    readers: list[Reader] = []
    open_item, said = "", 0
    for count, (step, value) in enumerate(steps):
        if step == "notice":
            await feed.post([Draft(Notice("info", "n" * value, "test"))])
        elif step == "settle":
            await feed.commit([Draft(Notice("info", "all was written", "test"))])
        elif step == "start" and not open_item:
            open_item, said = f"i{count}", 0
            item = AgentMessage(item_id=open_item, status="inProgress", created_at=NOON, text="", model="m")
            await feed.post([Draft(ItemStarted(item), "t", open_item)], [PutItem(session_id="s1", item=item)])
        elif step == "say" and open_item:
            text = chr(97 + count % 26) * value
            while not feed.delta("t", open_item, "text", text, said):
                await feed.room(1)
            said += value
        elif step == "complete" and open_item:
            item = AgentMessage(item_id=open_item, status="completed", created_at=NOON, text=f"{said}", model="m")
            await feed.post([Draft(ItemCompleted(item), "t", open_item)], [PutItem(session_id="s1", item=item)])
            open_item = ""
        elif step == "join":
            last, view = known[int(value * (len(known) - 1))]
            readers.append(Reader(feed, last, view, latency))
        elif step == "breathe":
            for _ in range(value):
                await asyncio.sleep(0)
            known.append((reference.last, reference.read()))
            known.append((reference.last, reference.view))
        elif readers:
            outbox = readers[value % len(readers)].outbox
            outbox.pause() if step == "pause" else outbox.resume()
    await feed.commit([Draft(Notice("info", "the end", "test"))])
    for reader in (reference, *readers):
        reader.outbox.resume()
    while any(reader.last < feed.head and not reader.subscription.dead for reader in (reference, *readers)):
        await asyncio.sleep(0.001)
        for reader in (reference, *readers):
            reader.read()
    for reader in readers:
        if not reader.subscription.dead:  # more was waiting for a stopped socket than it may: it was told to ask again
            assert _shown(reader.view) == _shown(reference.view)
    await store.close()


def _shown(view: views.View) -> Any:
    return view.items, {key: live.text for key, live in view.streaming.items()}
