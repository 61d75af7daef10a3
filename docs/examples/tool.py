"""Run one task with a tool of this program: the model may ask how many pieces of something are in stock."""

import asyncio
import sys
from typing import Any

from hermes_client import Connection, Session
from hermes_protocol.methods import Capabilities

STOCK = {"apples": 12, "pears": 0}
PARAMETERS = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}


async def stock(arguments: dict[str, Any]) -> dict[str, int]:
    item = arguments["item"]
    if item not in STOCK:
        raise LookupError(f"there is no {item}: expected one of {', '.join(STOCK)}")
    return {item: STOCK[item]}


async def main(task: str, model: str | None) -> None:
    capabilities = Capabilities(requests=("clientTool",))
    async with await Connection.open(capabilities=capabilities) as connection:
        session = await Session.create(connection, model=model)
        await session.serve_tool("stock", "How many of an item are in stock.", PARAMETERS, stock, read_only=True)
        ended = await session.run(task)
        print(ended.status if ended else "ended unseen")
        print(session.view.text(session.view.items[-1]))
        await session.close()


asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
