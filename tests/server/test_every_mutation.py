"""The whole method table: every row that changes something honours `key`, over a restart, and refuses observers."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from hermes_daemon.core.ports import ToolContext, ToolOutcome
from hermes_protocol.content import input_text
from hermes_protocol.methods import METHODS
from tests.support.live import Live, Peer, TestTool, live
from tests.support.loops import run

MUTATING = {method for method, row in METHODS.items() if row.mutates}
WITHOUT_KEY = {
    # Doing them twice is doing them once, or they act on what no receipt could outlive.
    "hermes/daemon/shutdown": {"mode": "drain"},
    "hermes/daemon/reload": {"what": ["config"]},
    "hermes/session/register": {"sessionId": "s", "tools": []},
    "hermes/hook/allow": {"event": "e", "command": "c"},
    "hermes/command/run": {"name": "n"},
}
NOTHING_ELSE = {"hermes/session/delete", "hermes/queue/resume"}
Params = dict[str, Any]


async def wrote(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    return ToolOutcome("written")


def text(words: str) -> list[Params]:
    return [{"type": "text", "text": words}]


class World:
    """Sessions in every state that some method needs, and for each method what is asked, and what else could be."""

    def __init__(self, peer: Peer, home: str) -> None:
        self.peer, self.home = peer, home
        self.cases: dict[str, tuple[Params, Params]] = {}

    async def build(self) -> None:
        idle = await self.peer.session(self.home)
        await self.peer.say(idle, "hello")
        await self._of_sessions(idle)
        await self._of_turns()
        await self._of_questions()

    async def _of_sessions(self, idle: str) -> None:
        items = (await self.peer.request("hermes/session/items", {"sessionId": idle}))["items"]
        gone = await self.peer.session(self.home)
        last = {"sessionId": idle, "toItemId": items[-1]["itemId"]}
        data = base64.b64encode(b"some bytes").decode()
        blob = {"sessionId": idle, "encoding": "base64", "mime": "image/png"}
        self.cases |= {
            "hermes/session/create": ({"cwd": self.home}, {"cwd": self.home, "title": "x"}),
            "hermes/session/fork": ({"sessionId": idle}, {"sessionId": idle, "title": "x"}),
            "hermes/session/rewind": ({**last, "expectRev": 0}, {**last, "expectRev": 7}),
            "hermes/session/setOption": (
                {"sessionId": idle, "id": "mode", "value": "off"},
                {"sessionId": idle, "id": "mode", "value": "manual"},
            ),
            "hermes/session/rename": ({"sessionId": idle, "title": "one"}, {"sessionId": idle, "title": "two"}),
            "hermes/session/archive": ({"sessionId": idle}, {"sessionId": idle, "archived": False}),
            "hermes/session/delete": ({"sessionId": gone}, {}),
            "hermes/blob/create": ({**blob, "data": data, "final": False}, {**blob, "data": data}),
            "hermes/config/set": (
                {"path": "agent.interrupt_grace_s", "value": 1},
                {"path": "agent.interrupt_grace_s", "value": 2},
            ),
        }

    async def _of_turns(self) -> None:
        busy = await self.peer.session(self.home, model="scripted/hang?text=words")
        turn = (await self.peer.submit(busy, "go"))["turnId"]
        first, second = [(await self.peer.submit(busy, words))["queueId"] for words in ("first", "second")]
        of = {"sessionId": busy}
        self.cases |= {
            "hermes/turn/submit": ({**of, "input": text("a")}, {**of, "input": text("b")}),
            "hermes/turn/steer": (
                {**of, "turnId": turn, "input": text("a")},
                {**of, "turnId": turn, "input": text("b")},
            ),
            "hermes/queue/update": (
                {**of, "queueId": first, "input": text("c")},
                {**of, "queueId": first, "input": text("d")},
            ),
            "hermes/queue/reorder": ({**of, "order": [second, first]}, {**of, "order": [first, second]}),
            "hermes/queue/remove": ({**of, "queueId": first}, {**of, "queueId": second}),
            "hermes/turn/interrupt": ({**of, "turnId": turn, "queue": "pause"}, {**of, "turnId": turn}),
            "hermes/queue/resume": (of, {}),
        }

    async def _of_questions(self) -> None:
        model = 'scripted/tool?name=write&args={"text":"x"}'
        asks = await self.peer.session(self.home, model=model)
        await self.peer.submit(asks, "write")
        request = (await self.peer.event("request.opened"))["data"]["requestId"]
        yes, no = {"optionId": "allow_once"}, {"optionId": "deny"}
        self.cases["hermes/request/answer"] = (
            {"requestId": request, "answer": yes},
            {"requestId": request, "answer": no},
        )


def first_said(answer: Params) -> Params:
    """A result without the mark of a repeat."""
    return {name: value for name, value in answer.items() if name != "duplicate"}


async def repeated(peer: Peer, world: World, first: dict[str, Params]) -> None:
    for method, (params, other) in world.cases.items():
        again = await peer.request(method, {**params, "key": "k"})
        assert first_said(again) == first[method], method
        if method not in NOTHING_ELSE:
            error = await peer.refused(method, {**other, "key": "k"})
            assert (method, error["code"]) == (method, -32047)
            assert first_said(error["data"]["receipt"]) == first[method], method


def kept(daemon: Live) -> list[Any]:
    """Of each session: what people said or have waiting, and the bytes of its blobs."""
    store = daemon.room.parts.store
    found = []
    for session in sorted(row.session_id for row in store.sessions(limit=100).rows):
        queue = store.queue(session)
        waiting = [input_text(entry.input) for entry in queue.entries] if queue else []
        said = [message.text for message in store.messages(session) if message.role == "user"]
        found.append((sorted(said + waiting), store.blob_bytes(session)))
    return found


def test_every_mutating_method_is_done_once_for_a_key_over_connections_and_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        home = str(tmp_path)
        tools = [TestTool("write", wrote)]
        async with live(home, tools=tools) as daemon:
            peer, other = await daemon.peer("one"), await daemon.peer("one")
            world = World(peer, home)
            await world.build()
            assert set(world.cases) == MUTATING, "a row of METHODS has no case here"
            first: dict[str, Params] = {}
            for method, (params, _) in world.cases.items():
                first[method] = first_said(await peer.request(method, {**params, "key": "k"}))
            before = kept(daemon)
            await repeated(other, world, first)
            assert kept(daemon) == before
        async with live(home, tools=tools) as daemon:
            await repeated(await daemon.peer("one"), world, first)

    run(story())


def test_an_observer_can_call_no_method_that_changes_anything(tmp_path: Path) -> None:
    async def story() -> None:
        home = str(tmp_path)
        async with live(home, tools=[TestTool("write", wrote)]) as daemon:
            owner = await daemon.peer("owner")
            watcher = await daemon.peer("watcher", client={"id": "w", "name": "watcher", "role": "observer"})
            world = World(owner, home)
            await world.build()
            before = kept(daemon)
            for method, params in {**{name: case[0] for name, case in world.cases.items()}, **WITHOUT_KEY}.items():
                error = await watcher.refused(method, {**params, "key": "k"})
                assert (method, error["data"]["kind"]) == (method, "permission_denied")
            assert kept(daemon) == before

    run(story())


def test_every_row_that_mutates_takes_a_key() -> None:
    takes_key = {name for name, row in METHODS.items() if "key" in row.params.__struct_fields__}
    assert takes_key >= MUTATING
    assert not MUTATING & WITHOUT_KEY.keys()
    assert WITHOUT_KEY.keys() < METHODS.keys()
