"""telemetry/event: who hears what, how much of it, and what it never holds."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from hermes_daemon.core.ports import Chunk, ReasoningDelta, Reply, Request, TextDelta, ToolContext, ToolOutcome
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.server import metrics
from hermes_protocol.content import Message, TextPart, ToolCall, Usage
from tests.support.live import Live, Peer, TestTool, live

SECRET = "sk-live-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"
ALL = {"requests": ["permission"], "maxLatencyMs": 0, "telemetry": "all"}
METRICS = ALL | {"telemetry": "metrics"}


async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
    return ToolOutcome("the output of the tool")


TOOLS = [TestTool("write", write, read_only=True)]


async def fact(peer: Peer, name: str) -> dict[str, Any]:
    """The next telemetry/event of that name; others are passed over."""
    while True:
        note = await peer.note("telemetry/event")
        if note["name"] == name:
            return note


def seen(peer: Peer) -> list[dict[str, Any]]:
    """Every telemetry/event that was read."""
    return [frame["params"] for frame in peer.order if frame.get("method") == "telemetry/event"]


def test_a_turn_with_a_tool_tells_its_model_calls_its_tool_and_itself(tmp_path: Path) -> None:
    async def story() -> tuple[list[dict[str, Any]], dict[str, Any]]:
        async with live(str(tmp_path), tools=TOOLS) as daemon:
            peer = await daemon.peer(capabilities=ALL)
            session = await peer.session(str(tmp_path), model='scripted/tool?name=write&args={"text":"x"}')
            ended = await peer.say(session, "go")
            turn = await fact(peer, "turn")
            assert turn["sessionId"] == session
            assert turn["turnId"] == ended["turnId"]
            return [one for one in seen(peer) if one.get("turnId") == ended["turnId"]], turn["attrs"]

    told, turn = asyncio.run(story())
    assert [one["name"] for one in told] == ["model.call", "tool.call", "model.call", "turn"]
    first, tool, second = (one["attrs"] for one in told[:3])
    assert (first["provider"], first["outcome"], first["round"], first["failed"]) == (
        "scripted",
        "tool_calls",
        1,
        False,
    )
    assert (second["outcome"], second["round"]) == ("stop", 2)
    assert (tool["tool"], tool["outcome"], tool["outputBytes"]) == ("write", "completed", len("the output of the tool"))
    assert (turn["status"], turn["rounds"], turn["toolCalls"], turn["failed"]) == ("completed", 2, 1, False)
    assert turn["outputTokens"] == first["outputTokens"] + second["outputTokens"] > 0
    parts = turn["promptMs"] + turn["modelMs"] + turn["toolsMs"] + turn["journalMs"]
    assert 0 < parts <= turn["totalMs"]
    assert 0 < turn["firstTokenMs"] <= turn["totalMs"]
    assert second["firstTokenMs"] <= second["durationMs"]


def test_level_metrics_is_numbers_of_every_session_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> list[dict[str, Any]]:
        async with live(str(tmp_path), tools=TOOLS) as daemon:
            peer = await daemon.peer()
            watcher = await daemon.peer("watcher", capabilities=METRICS)
            session = await peer.session(str(tmp_path), model='scripted/tool?name=write&args={"text":"x"}')
            await peer.say(session, "go")
            await fact(watcher, "turn")
            return seen(watcher)

    told = asyncio.run(story())
    assert {"turn", "model.call", "tool.call", "daemon.counts"} <= {one["name"] for one in told}
    assert "journal.commit" not in {one["name"] for one in told}
    for one in told:
        assert one["attrs"], one
        assert all(isinstance(value, int | float) for value in one["attrs"].values()), one


def test_level_all_of_a_session_is_for_those_who_follow_it(tmp_path: Path) -> None:
    async def story() -> tuple[dict[str, Any], dict[str, Any]]:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(capabilities=ALL)
            other = await daemon.peer("other", capabilities=ALL)
            session = await peer.session(str(tmp_path))
            await peer.say(session, "go")
            return (await fact(peer, "turn"))["attrs"], (await fact(other, "turn"))["attrs"]

    mine, theirs = asyncio.run(story())
    assert mine["model"] == "scripted/echo"
    assert not any(isinstance(value, str) for value in theirs.values())
    assert theirs["totalMs"] == mine["totalMs"]


def test_who_did_not_ask_hears_nothing(tmp_path: Path) -> None:
    async def story() -> list[dict[str, Any]]:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            loud = await daemon.peer("loud", capabilities=ALL)
            session = await peer.session(str(tmp_path))
            await peer.say(session, "go")
            await fact(loud, "turn")
            await peer.request("hermes/daemon/ping")
            return seen(peer)

    assert asyncio.run(story()) == []


def test_nobody_measures_when_nobody_wants_it(tmp_path: Path) -> None:
    async def story() -> tuple[bool, bool, bool]:
        async with live(str(tmp_path), config="telemetry: {metrics: false}") as daemon:
            telemetry = daemon.room.parts.telemetry
            before = telemetry.wanted
            peer = await daemon.peer(capabilities=METRICS)
            during = telemetry.wanted
            gone = await daemon.peer("gone")
            await peer.request("shutdown")
            peer.send({"jsonrpc": "2.0", "method": "exit"})
            await peer.closed()
            await gone.request("hermes/daemon/ping")
            return before, during, telemetry.wanted

    assert asyncio.run(story()) == (False, True, False)


class Chatty:
    """A provider whose every word is content: it calls the tool, then one that nobody has, then answers."""

    name = "chatty"

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        tools = [message for message in request.messages if message.role == "tool"]
        yield ReasoningDelta("reasoning-words")
        if len(tools) < 2:
            name = "write" if not tools else f"invented-words-{SECRET}"
            call = ToolCall(f"call{len(tools)}", name, json.dumps({"text": f"argument-words {SECRET}"}))
            yield Reply(Message("assistant", (call,)), "tool_calls", Usage(5, 7, 11, 13, 2, 0.25))
            return
        yield TextDelta("answer-words")
        yield Reply(Message("assistant", (TextPart("answer-words"),)), "stop", Usage(1, 1))

    async def close(self) -> None:
        return None


def test_prompts_arguments_outputs_and_keys_are_in_no_telemetry(tmp_path: Path) -> None:
    async def leak(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome(f"output-words {SECRET}", is_error=True)

    async def story() -> tuple[str, str, dict[str, Any]]:
        tools = [TestTool("write", leak, read_only=True)]
        async with live(str(tmp_path), tools=tools, provider=Chatty()) as daemon:
            peer = await daemon.peer(capabilities=ALL)
            session = await peer.session(str(tmp_path), title="title-words")
            await peer.say(session, f"prompt-words {SECRET}")
            turn = await fact(peer, "turn")
            await peer.submit(session, "prompt-words", options={"model": "hang"})
            await peer.request("hermes/turn/interrupt", {"sessionId": session, "reason": "reason-words"})
            await fact(peer, "turn")
            return json.dumps(seen(peer)), metrics.render(daemon.daemon), turn["attrs"]

    told, exposed, turn = asyncio.run(story())
    for words in ("prompt", "argument", "output", "title", "reason", "reasoning", "answer", "invented"):
        assert f"{words}-words" not in told
        assert f"{words}-words" not in exposed
    assert SECRET not in told + exposed
    assert '"tool": "unknown"' in told  # the model may write anything where a tool's name belongs
    assert (turn["inputTokens"], turn["cachedTokens"], turn["cacheWriteTokens"]) == (11, 22, 26)
    assert (turn["outputTokens"], turn["reasoningTokens"], turn["cost"]) == (15, 4, 0.5)


def test_a_failed_call_tells_its_kind_and_its_attempts_not_its_message(tmp_path: Path) -> None:
    async def story() -> tuple[dict[str, Any], dict[str, Any]]:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(capabilities=ALL)
            session = await peer.session(str(tmp_path), model="scripted/fail?kind=network&times=1&retry_after=0")
            await peer.say(session, "go")
            again = (await fact(peer, "model.call"))["attrs"]
            await peer.request(
                "hermes/session/setOption",
                {"sessionId": session, "id": "model", "value": "scripted/fail?kind=auth&times=9"},
            )
            await peer.say(session, "go")
            return again, (await fact(peer, "model.call"))["attrs"]

    again, failed = asyncio.run(story())
    assert (again["retries"], again["failed"], again["outcome"]) == (1, False, "stop")
    assert (failed["failed"], failed["outcome"]) == (True, "auth")


def test_a_question_tells_how_long_it_was_open_and_the_tool_how_long_it_waited(tmp_path: Path) -> None:
    async def story() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        async with live(str(tmp_path), tools=[TestTool("write", write)]) as daemon:
            peer = await daemon.peer(capabilities=ALL)
            session = await peer.session(str(tmp_path), model='scripted/tool?name=write&args={"text":"x"}')
            await peer.submit(session, "go")
            opened = await peer.event("request.opened")
            answer = {"requestId": opened["data"]["requestId"], "answer": {"optionId": "allow_once"}}
            await peer.request("hermes/request/answer", answer)
            question, tool = await fact(peer, "question"), await fact(peer, "tool.call")
            return question["attrs"], tool["attrs"], (await fact(peer, "turn"))["attrs"]

    question, tool, turn = asyncio.run(story())
    assert (question["kind"], question["outcome"]) == ("permission", "allow_once")
    assert tool["approvalMs"] > 0
    assert tool["durationMs"] + tool["approvalMs"] <= tool["totalMs"]
    assert turn["approvalMs"] == tool["approvalMs"]
    assert turn["toolsMs"] < tool["totalMs"]


def test_middleware_is_counted_apart_from_what_it_is_wrapped_around(tmp_path: Path) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(value: Any, *_: Any) -> None:
        started.set()
        await go_on.wait()

    async def story() -> dict[str, Any]:
        registry = Registry()
        registry.use("llm_request", slow, owner="slow")
        async with live(str(tmp_path), middleware=registry) as daemon:
            peer = await daemon.peer(capabilities=ALL)
            session = await peer.session(str(tmp_path))
            await peer.submit(session, "go")
            await started.wait()
            go_on.set()
            return dict((await fact(peer, "turn"))["attrs"])

    turn = asyncio.run(story())
    assert turn["middlewareMs"] > 0
    assert turn["promptMs"] + turn["middlewareMs"] + turn["modelMs"] + turn["journalMs"] <= turn["totalMs"]


def test_a_queued_turn_tells_how_long_it_waited(tmp_path: Path) -> None:
    running, release = asyncio.Event(), asyncio.Event()

    async def hold(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        running.set()
        await release.wait()
        return ToolOutcome("done")

    async def story() -> tuple[float, float]:
        async with live(str(tmp_path), tools=[TestTool("write", hold, read_only=True)]) as daemon:
            peer = await daemon.peer(capabilities=METRICS)
            session = await peer.session(str(tmp_path), model='scripted/tool?name=write&args={"text":"x"}')
            await peer.submit(session, "one")
            await running.wait()
            queued = await peer.submit(session, "two", options={"model": "scripted/echo"})
            before = daemon.room.parts.clock.now()
            while daemon.room.parts.clock.now() == before:  # its resolution is a millisecond
                await peer.request("hermes/daemon/ping")
            release.set()
            first, second = await fact(peer, "turn"), await fact(peer, "turn")
            assert second["turnId"] == queued["turnId"]
            return first["attrs"]["queueMs"], second["attrs"]["queueMs"]

    first, second = asyncio.run(story())
    assert first == 0
    assert second >= 1


def test_every_detail_of_the_journal_is_for_level_all(tmp_path: Path) -> None:
    async def story() -> dict[str, Any]:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(capabilities=ALL)
            await peer.session(str(tmp_path))
            return await fact(peer, "journal.commit")

    told = asyncio.run(story())
    assert set(told) == {"name", "attrs"}
    assert set(told["attrs"]) == {"commitMs", "writes", "durable"}
    assert told["attrs"]["writes"] >= 1


def test_counts_are_told_when_they_change(tmp_path: Path) -> None:
    async def story() -> list[dict[str, Any]]:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(capabilities=METRICS)
            session = await peer.session(str(tmp_path))
            await peer.say(session, "go")
            busy: list[int] = []
            while busy[-1:] != [0] or 1 not in busy:
                await peer.note("telemetry/event")
                busy = [one["attrs"]["busySessions"] for one in seen(peer) if one["name"] == "daemon.counts"]
            return [one["attrs"] for one in seen(peer) if one["name"] == "daemon.counts"]

    told = asyncio.run(story())
    assert max(one["busySessions"] for one in told) == 1
    assert told[-1] == {"liveSessions": 1, "busySessions": 0, "openRequests": 0, "connections": 1}
    assert all(one != other for one, other in pairwise(told))


def test_who_asks_is_told_the_counts_first(tmp_path: Path) -> None:
    async def story() -> list[dict[str, Any]]:
        async with live(str(tmp_path)) as daemon:
            await daemon.peer("other")
            peer = await daemon.peer(capabilities=METRICS)
            await fact(peer, "daemon.counts")
            return peer.order

    answer, counts = asyncio.run(story())
    assert "result" in answer
    assert counts["params"]["attrs"]["connections"] == 2


def test_a_closed_connection_tells_how_it_went(tmp_path: Path) -> None:
    async def story() -> dict[str, Any]:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer(capabilities=ALL)
            other = await daemon.peer("other")
            await other.session(str(tmp_path))
            other.close()
            return dict((await fact(peer, "connection.closed"))["attrs"])

    told = asyncio.run(story())
    assert told["peakQueueBytes"] > 0
    assert told["openMs"] > 0
    assert (told["lags"], told["desyncs"], told["dropped"], told["slow"]) == (0, 0, 0, False)


def test_a_reader_that_falls_behind_is_told_of_and_loses_its_telemetry_first(tmp_path: Path) -> None:
    limits = "daemon: {outbox_soft_bytes: 20000, outbox_hard_bytes: 400000}"

    async def story(daemon: Live) -> tuple[dict[str, Any], dict[str, Any]]:
        peer = await daemon.peer(capabilities=ALL)
        session = await peer.session(str(tmp_path), model="scripted/words?n=20000")
        slow = await daemon.peer("slow", small_buffer=True, capabilities=ALL | {"maxFrameBytes": 65536})
        await slow.request("hermes/session/subscribe", {"sessionId": session})
        for _ in range(6):
            await peer.say(session, "go")
        stalled = await fact(peer, "connection.stalled")
        slow.close()
        return stalled["attrs"], (await fact(peer, "connection.closed"))["attrs"]

    async def whole() -> tuple[dict[str, Any], dict[str, Any]]:
        async with live(str(tmp_path), config=limits) as daemon:
            return await story(daemon)

    stalled, closed = asyncio.run(whole())
    assert stalled["stage"] in ("lag", "desync")
    assert closed["lags"] + closed["desyncs"] >= 1
    assert closed["dropped"] >= 1
    assert closed["peakQueueBytes"] > 20000
