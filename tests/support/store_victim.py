"""A process that writes to a store until it is killed: `python -m tests.support.store_victim PATH`.

Each write holds a message, an item, an event and a lease that belong together; its number is printed when the store
acknowledged it. Writes are in flight side by side, some of them not durable.
"""

from __future__ import annotations

import asyncio
import sys

from hermes_daemon.core.records import AddMessage, RaiseCeiling
from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.store.sqlite import SqliteStore
from tests.support.store_rows import HandClock, event, events, message, put_session, said


async def _write(store: SqliteStore, number: int) -> None:
    text = f"{number} " + "x" * (number % 50 * 40)
    await store.write(
        AddMessage(session_id="s1", message=message(text)),
        said("s1", f"i{number}", text),
        events(event("s1", number)),
        RaiseCeiling(session_id="s1", ceiling=number),
        durable=number % 3 > 0,
    )
    print(number, flush=True)


async def _main(path: str) -> None:
    store = SqliteStore.open(path, DatabaseSettings(retain_events=1_000_000), HandClock())
    await store.write(put_session())
    number = store.event_range("s1")[1]
    in_flight = set[asyncio.Task[None]]()
    while True:
        number += 1
        in_flight.add(asyncio.create_task(_write(store, number)))
        if len(in_flight) >= 8:
            done, in_flight = await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a victim that cannot write must end, not go on in silence


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
