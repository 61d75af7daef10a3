"""A store that keeps a log of its writes, and the disk as it is after any of them.

A crash is a place in the story: so many writes were committed, so much was told. What the disk holds then is made
again from the log, write by write; a loss of power may also take the writes behind the last one that was synced.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hermes_daemon.core.records import Op
from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.engine.emitted import Batch
from hermes_daemon.engine.identity import SystemClock
from hermes_daemon.store.sqlite import SqliteStore


class Committed(msgspec.Struct, frozen=True):
    """A write that was acknowledged: its place in the log."""

    place: int


class Saw(msgspec.Struct, frozen=True):
    """An event that a subscriber got: `body` is what it says; deltas are numbers only."""

    session_id: str
    seq: int
    kind: str
    body: bytes


class Acknowledged(msgspec.Struct, frozen=True):
    """A submit that was answered: its text and the answer."""

    text: str
    turn_id: str
    session_id: str


Moment = Committed | Saw | Acknowledged


class LoggedStore:
    """ports.Store over another one. `writes` in the order they were called; `story` in the order things came out."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.writes: list[tuple[tuple[Op, ...], bool]] = []
        self.story: list[Moment] = []

    def write(self, *ops: Op, durable: bool = True, patience: float | None = 0.0) -> Awaitable[None]:
        place = len(self.writes)
        self.writes.append((ops, durable))
        future = asyncio.ensure_future(self._store.write(*ops, durable=durable, patience=patience))
        future.add_done_callback(lambda _: self.story.append(Committed(place)))
        return future

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Observer:
    """A subscriber that writes down what it gets."""

    def __init__(self, session_id: str, story: list[Moment]) -> None:
        self.connection_id, self.can_answer = f"c-{session_id}", frozenset({"permission"})
        self.tells_seen = False
        self.patience = 0.0
        self.requests: list[str] = []
        self._session_id, self._story = session_id, story

    def when_sent(self, then: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(then)

    def events(self, batch: Batch) -> None:
        for event in batch.events:
            body = b"" if event.delta is not None else msgspec.json.encode(event.data)
            self._story.append(Saw(self._session_id, event.seq, event.kind, body))
            if event.kind == "request.opened":
                self.requests.append(event.data.request_id)


class Disk:
    """What a disk holds after a number of writes, each copy a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._store = SqliteStore.open(str(folder / "all.db"), DatabaseSettings(), SystemClock())
        self._copies = 0

    async def apply(self, ops: tuple[Op, ...]) -> None:
        await self._store.write(*ops, durable=False)

    def copy(self) -> Path:
        """The files as a killed daemon would leave them now."""
        self._copies += 1
        path = self._folder / f"{self._copies}.db"
        for suffix in ("", "-wal"):
            source = self._folder / f"all.db{suffix}"
            if source.exists():
                shutil.copyfile(source, f"{path}{suffix}")
        return path

    async def close(self) -> None:
        await self._store.close()


def crashes(logged: LoggedStore, power: Any) -> Iterator[tuple[int, int]]:
    """(how far the story had come, how many writes the disk kept) for a crash behind every commit. `power` is a
    random.Random that says when it is a loss of power, which may keep less than what was committed."""
    committed = 0
    synced = 0
    for position, moment in enumerate(logged.story):
        if not isinstance(moment, Committed):
            continue
        committed = max(committed, moment.place + 1)
        if logged.writes[moment.place][1]:
            synced = max(synced, moment.place + 1)
        kept = power.randint(synced, committed) if power.random() < 0.3 else committed
        yield position + 1, kept
