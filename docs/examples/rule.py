"""Run one task and answer its questions by a rule: commands that only list files may run, nothing else."""

import asyncio
import json
import sys

from hermes_client import Connection, Session
from hermes_protocol.events import PermissionOption, RequestOpened
from hermes_protocol.methods import Answer, Capabilities


def judge(request: RequestOpened) -> Answer:
    call = request.tool_call
    listing = call is not None and call.name == "terminal" and json.loads(call.args).get("command", "").startswith("ls")
    option: PermissionOption = next(o for o in request.options if o.kind == ("allow_once" if listing else "deny"))
    return Answer(option_id=option.id, feedback=None if listing else "Only ls is allowed here.")


async def answer_all(session: Session) -> None:
    async for change in session.changes():
        if isinstance(change.payload, RequestOpened) and change.payload.kind == "permission":
            await session.answer(change.payload.request_id, judge(change.payload))


async def main(task: str, model: str | None) -> None:
    capabilities = Capabilities(requests=("permission",))
    async with await Connection.open(capabilities=capabilities) as connection:
        session = await Session.create(connection, model=model)
        answering = asyncio.create_task(answer_all(session))
        ended = await session.run(task)
        answering.cancel()
        print(ended.status if ended else "ended unseen")
        print(session.view.text(session.view.items[-1]))


asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
