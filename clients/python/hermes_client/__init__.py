"""An asyncio client of hermes-daemon: connect (or start the daemon), follow sessions, submit turns, answer questions.

async with await connect() as connection:
    session = await Session.create(connection, "/path/to/project")
    await session.run("What does this project do?")
    print(session.view.items[-1].text)
"""

from hermes_client.connection import Connection
from hermes_client.session import Change, Changes, Session
from hermes_client.view import Streaming, View, apply, empty, from_snapshot
from hermes_client.wire import Disconnected

connect = Connection.open

__all__ = [
    "Change",
    "Changes",
    "Connection",
    "Disconnected",
    "Session",
    "Streaming",
    "View",
    "apply",
    "connect",
    "empty",
    "from_snapshot",
]
