"""Questions under every order of answers, declines, leaving and interrupts: each opened one is resolved exactly once,
behind its call and before what follows from it (G4, G5), and each turn ends exactly once (G6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_daemon.core.ports import Answered, Ask, ToolContext, ToolOutcome
from hermes_protocol.events import Question
from tests.support.live import Live, Peer, TestTool, live
from tests.support.loops import run

KINDS: dict[str, Any] = {"requests": ["permission", "clarify", "secret", "form"], "maxLatencyMs": 0}
CLARIFY = Ask("clarify", (Question("a", "Which?", ("x", "y")), Question("b", "Why?")))
DEEDS = st.tuples(
    st.sampled_from(
        ["submit", "allow", "deny", "partly", "rest", "wrong", "decline", "leave", "come", "seen", "stop", "stale",
         "resubscribe", "unattended", "result", "breathe"]
    ),
    st.integers(0, 2),
)  # fmt: skip


class Clients:
    """Three clients of one session that come and go, and a watcher that cannot answer and sees everything."""

    def __init__(self, daemon: Live, watcher: Peer, session: str, *, offers: bool) -> None:
        self.offers = offers
        self.daemon, self.watcher, self.session = daemon, watcher, session
        self.peers: dict[int, Peer] = {}
        self.calls: list[tuple[Peer, int]] = []
        self.number = 0

    async def peer(self, index: int) -> Peer:
        if index not in self.peers:
            self.number += 1
            peer = self.peers[index] = await self.daemon.peer(f"p{index}", capabilities=KINDS)
            await peer.request("hermes/session/subscribe", {"sessionId": self.session})
            if self.offers:  # the first who comes has it, until he leaves
                tool = {"name": "ask", "description": "A client's.", "readOnly": True}
                offer = {"sessionId": self.session, "tools": [tool]}
                await peer.answer(peer.call("hermes/session/register", offer))
        return self.peers[index]

    def call(self, peer: Peer, method: str, params: dict[str, Any]) -> None:
        self.calls.append((peer, peer.call(method, params)))

    async def answer(self, peer: Peer, pick: int, answer: dict[str, Any]) -> None:
        """Answer one of those that are open, or that ended: late answers are part of it."""
        opened = [event["data"]["requestId"] for event in events(self.watcher) if event["kind"] == "request.opened"]
        for request in opened[-1 - pick :]:
            self.call(peer, "hermes/request/answer", {"requestId": request, "answer": answer})

    async def do(self, deed: str, index: int) -> None:
        peer = await self.peer(index)
        given: dict[str, dict[str, Any]] = {
            "allow": {"optionId": "allow_once"},
            "deny": {"optionId": "deny", "feedback": "no"},
            "partly": {"answers": {"a": {"choice": "x"}}},
            "rest": {"answers": {"b": {"text": "so"}, "a": {"choice": "y"}}},
            "wrong": {"answers": {"c": {"text": "?"}}},
            "decline": {"decline": True},
            "result": {"result": index},
        }
        turn = {"sessionId": self.session, "input": [{"type": "text", "text": "go"}]}
        started = [event["turnId"] for event in events(self.watcher) if event["kind"] == "turn.started"]
        if deed == "submit":
            self.number += 1
            self.call(peer, "hermes/turn/submit", {**turn, "key": f"k{self.number}"})
        elif deed in given:
            await self.answer(peer, index, given[deed])
        elif deed == "leave":
            peer.close()
            del self.peers[index]
            self.calls = [(owner, call) for owner, call in self.calls if owner is not peer]
        elif deed == "seen":
            for event in events(self.watcher)[-20:]:
                if event["kind"] == "request.opened":
                    seen = {"requestId": event["data"]["requestId"]}
                    peer.send({"jsonrpc": "2.0", "method": "hermes/request/seen", "params": seen})
        elif deed == "stop":
            self.call(peer, "hermes/turn/interrupt", {"sessionId": self.session})
        elif deed == "stale" and started:
            for turn_id in started[:-1]:
                self.call(peer, "hermes/turn/interrupt", {"sessionId": self.session, "turnId": turn_id})
        elif deed == "resubscribe":
            self.call(peer, "hermes/session/subscribe", {"sessionId": self.session})
        elif deed == "unattended":
            value = "deny" if index else "wait"
            change = {"sessionId": self.session, "id": "unattended", "value": value}
            self.call(peer, "hermes/session/setOption", change)
        await self.watcher.request("hermes/daemon/ping")


def events(peer: Peer) -> list[dict[str, Any]]:
    return [frame["params"] for frame in peer.order if frame.get("method") == "hermes/event"]


def hold_the_rules(told: list[dict[str, Any]]) -> None:
    running, ended, items, opened, resolved = None, set[str](), set[str](), set[str](), set[str]()
    answered: set[tuple[str, str]] = set()
    for event in told:
        kind, turn, item = event["kind"], event.get("turnId"), event.get("itemId")
        request = event["data"].get("requestId")
        if kind == "turn.started":
            assert running is None
            running = turn
        elif kind == "turn.ended":
            assert turn == running
            assert turn not in ended
            assert opened == resolved, "a question outlives its turn"
            ended.add(turn)
            running = None
        elif kind == "item.started":
            items.add(item)
        elif kind == "item.completed":
            items.discard(item)
        elif kind == "request.opened":
            assert item in items, "G4: its call began before"
            assert request not in opened
            opened.add(request)
        elif kind == "request.answered":
            assert request in opened - resolved
            assert (request, event["data"]["questionId"]) not in answered
            answered.add((request, event["data"]["questionId"]))
        elif kind == "request.resolved":
            assert request in opened, "resolved and never opened"
            assert request not in resolved, "resolved twice"
            assert item in items, "G5: what follows comes behind"
            resolved.add(request)
        elif kind in ("request.clock", "request.seen"):
            assert request in opened
    assert running is None
    assert opened == resolved


@pytest.mark.parametrize("kind", ["permission", "clarify", "clientTool"])
def test_no_order_of_deeds_leaves_a_question_open_or_ends_it_twice(
    tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    @settings(max_examples=60)
    @given(st.lists(DEEDS, min_size=3, max_size=25))
    def law(deeds: list[tuple[str, int]]) -> None:
        run(doing(str(tmp_path_factory.mktemp("home")), kind, deeds))

    law()


async def doing(home: str, kind: str, deeds: list[tuple[str, int]]) -> None:
    ran: list[Answered | None] = []

    async def ask(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        ran.append(await ctx.ask(CLARIFY) if kind == "clarify" else None)
        return ToolOutcome("done")

    tool = TestTool("ask", ask, read_only=kind == "clarify")
    async with live(home, tools=[] if kind == "clientTool" else [tool]) as daemon:
        watcher = await daemon.peer("watcher", capabilities={"requests": []})
        session = await watcher.session(home, model="scripted/tool?name=ask")
        clients = Clients(daemon, watcher, session, offers=kind == "clientTool")
        for deed, index in [("submit", 0), *deeds]:
            await clients.do(deed, index)
        for peer, call in clients.calls:
            frame = await peer.answer(call)
            assert "result" in frame or frame["error"]["code"] in (-32046, -32602, -32048), frame
        while len(daemon.daemon.connections) > 1 + len(clients.peers):
            await watcher.request("hermes/daemon/ping")  # what those said who left has been heard then
        idle = {"sessionId": session, "until": "idle", "timeoutMs": 1}
        while not (await watcher.request("hermes/session/wait", idle))["reached"]:
            await watcher.request("hermes/turn/interrupt", {"sessionId": session, "queue": "clear"})
        head = (await watcher.request("hermes/session/get", {"sessionId": session}))["head"]
        while not events(watcher) or events(watcher)[-1]["seq"] < head:
            await watcher._read()
        told = events(watcher)
        hold_the_rules(told)
        assert (await watcher.request("hermes/request/list"))["requests"] == []
        assert daemon.room.parts.store.open_requests() == ()
        outcomes = [event["data"]["outcome"] for event in told if event["kind"] == "request.resolved"]
        # An interrupt may come between the answer and what follows from it: then nothing follows.
        if kind == "permission":
            assert len(ran) <= outcomes.count("allow_once")
        else:
            ends = iter(outcomes)
            assert all(one.outcome in ends for one in ran if one is not None), "a tool read another end than was told"
