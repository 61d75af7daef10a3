"""Follow a session that others work in: what is said, what runs, what is asked. Ends with the turn that runs."""

import asyncio
import sys

from hermes_client import Connection, Session
from hermes_protocol.events import ItemCompleted, RequestOpened, TurnEnded


async def main(session_id: str) -> None:
    async with await Connection.open() as connection:
        session = await Session.open(connection, session_id)
        changes = session.changes()
        for item in session.view.items:
            print(type(item).__name__, session.view.text(item))
        if session.view.state == "idle":
            return
        async for change in changes:
            match change.payload:
                case ItemCompleted(item=item):
                    print(type(item).__name__, change.view.text(item))
                case RequestOpened(tool_call=call) if call is not None:
                    print("asked:", call.title)
                case TurnEnded(status=status):
                    print("ended:", status)
                    return


asyncio.run(main(sys.argv[1]))
