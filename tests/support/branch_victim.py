"""A process that forks sessions and takes them back until it is killed: `python -m tests.support.branch_victim PATH`.

Each fork comes with its first event, each rewind of it with the next; the number is printed when both are acknowledged.
"""

from __future__ import annotations

import asyncio
import sys

from hermes_daemon.core.records import AddMessage, CopySession, TruncateSession
from hermes_daemon.core.settings import DatabaseSettings
from hermes_daemon.store.sqlite import SqliteStore
from tests.support.store_rows import HandClock, event, events, message, put_session, said, session_row

ITEMS = 20


async def _main(path: str) -> None:
    store = SqliteStore.open(path, DatabaseSettings(), HandClock())
    if store.session("s1") is None:
        said_all = [said("s1", f"i{n}", f"words {n}") for n in range(ITEMS)]
        messages = [AddMessage(session_id="s1", message=message(f"words {n}")) for n in range(ITEMS)]
        await store.write(put_session(), *said_all, *messages)
    number = len(store.sessions(limit=100_000).rows)
    while True:
        number += 1
        fork = f"f{number}"
        copy = CopySession(source="s1", row=session_row(fork), last_item=f"i{ITEMS - 1}", messages=ITEMS)
        back = TruncateSession(session_id=fork, last_item="i0", messages=1)
        store.write(copy, events(event(fork, 2)))
        await store.write(back, events(event(fork, 3)))
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
