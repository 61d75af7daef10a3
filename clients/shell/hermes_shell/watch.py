"""`hermes watch`: every session of the daemon on one screen, as it changes; once or as JSON for scripts."""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import Any

import msgspec

from hermes_client import Connection
from hermes_local.address import Address
from hermes_local.spawn import connect
from hermes_protocol.methods import Capabilities, Client, EventOptions
from hermes_shell.interactive.refusals import explained
from hermes_shell.options import ChatOptions
from hermes_shell.overview import Overview, lines

NAME = "hermes watch"
SETTLE_S = 0.2
"""Between two lines of JSON: what changes together is told together."""


def run(given: dict[str, Any], address: Address) -> int:
    """Watch until `q`; Enter attaches to the chosen session and comes back here when it is left."""
    connect(address, NAME).close()  # a daemon is watched, not started
    profile = address.profile or "default"
    if given["json"] or given["once"] or not sys.stdout.isatty() or not sys.stdin.isatty():
        return asyncio.run(_print(profile, as_json=bool(given["json"]), once=not given["json"] or bool(given["once"])))
    while True:
        chosen = asyncio.run(_screen(profile))
        if chosen is None:
            return 0
        from hermes_shell.interactive import main as interactive

        interactive.run(ChatOptions(session=chosen, profile=profile))


async def _open(profile: str) -> Connection:
    capabilities = Capabilities(events=EventOptions(detail="final", sessions=True))
    return await Connection.open(client=Client(name=NAME, role="observer"), capabilities=capabilities, profile=profile)


async def _print(profile: str, *, as_json: bool, once: bool) -> int:
    changed = asyncio.Event()
    with explained():
        async with await _open(profile) as connection:
            overview = Overview(connection, changed.set)
            await overview.load()
            last = b""
            while True:
                changed.clear()
                rows = overview.rows()
                if not as_json:
                    print("\n".join(lines(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None)))
                    break
                told = msgspec.json.encode([msgspec.structs.replace(row, turn_seconds=None) for row in rows])
                if told != last:  # that only time went by is no news
                    last = told
                    print(msgspec.json.encode(rows).decode(), flush=True)
                if once:
                    break
                await changed.wait()
                await asyncio.sleep(SETTLE_S)
            await overview.close()
    return 0


async def _screen(profile: str) -> str | None:
    from hermes_shell.watch_screen import WatchScreen

    with explained():
        async with await _open(profile) as connection:
            screen = WatchScreen(connection)
            await screen.overview.load()
            try:
                return await screen.run()
            finally:
                await screen.overview.close()
