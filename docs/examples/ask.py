"""Ask one question and print the answer as it is written."""

import asyncio
import sys

from hermes_client import Connection, Session
from hermes_protocol.events import AgentMessage, ItemDelta, TurnEnded


async def main(question: str, model: str | None) -> None:
    async with await Connection.open() as connection:
        session = await Session.create(connection, model=model)
        changes = session.changes()
        turn = await session.submit(question)
        async for change in changes:
            if isinstance(change.payload, ItemDelta) and change.event is not None:
                if isinstance(change.view.item(change.event.item_id or ""), AgentMessage):
                    print(change.payload.text, end="", flush=True)
            elif isinstance(change.payload, TurnEnded) and change.event and change.event.turn_id == turn.turn_id:
                print()
                return


asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
