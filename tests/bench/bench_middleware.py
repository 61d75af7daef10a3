"""What middleware costs: a point where nobody registered, one request middleware, ten observers on every delta."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from hermes_daemon.core.ports import Request, ToolSpec
from hermes_daemon.engine.passage import Passage
from hermes_daemon.middleware.payloads import PointContext
from hermes_daemon.middleware.registry import Link, Registry
from hermes_daemon.middleware.styles import transform
from hermes_protocol.content import Message, TextPart, ToolCall, ToolResult
from tests.bench.client import BenchClient
from tests.bench.figure import Figure, interleaved
from tests.support.daemon_process import Daemon, running_daemon

CALLS = 100_000
ROUNDS = 9
REQUESTS = 300
PAIRS = 40
DELTAS = 2000
OBSERVERS = """
def register(ctx):
    for _ in range(10):
        ctx.on("on_stream_delta", lambda part, context: None)
"""


def measure() -> list[Figure]:
    return [
        Figure("a middleware point where nobody registered", asyncio.run(_idle()), "µs", goal=1.0,
               note="fold of the caller's own object, through the session's registry and the daemon's"),
        Figure("one request middleware on 100 messages", asyncio.run(_request("plain")), "µs", goal=200.0,
               note="copy, call on the loop, check; (value, context)"),
        Figure("the same by keywords, as a dict and back", asyncio.run(_request("hermes")), "µs",
               note="two fresh dicts of the request, a thread, the way back; hermes.middleware.v1"),
        _stream(),
    ]  # fmt: skip


class _Quiet:
    """As much of a session as an idle point looks at."""

    def __init__(self) -> None:
        self.middleware = Registry(Registry())


async def _idle() -> float:
    points, request = Passage(_Quiet(), PointContext), _hundred()  # type: ignore[arg-type]
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            await points.fold("llm_request", request)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) / CALLS * 1e6


def _hundred() -> Request:
    messages: list[Message] = []
    for turn in range(25):
        call = ToolCall(f"c{turn}", "terminal", '{"command": "ls -la", "timeout": 10}')
        messages += [
            Message("user", (TextPart("Look at the files again, please. " * 4),), item_id=f"i{turn}"),
            Message("assistant", (TextPart("I will look."), call)),
            Message("tool", (ToolResult(f"c{turn}", "a line of output\n" * 40),)),
            Message("assistant", (TextPart("There are forty lines of output."),)),
        ]
    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    tools = tuple(ToolSpec(f"tool{number}", "Does a thing.", schema) for number in range(20))
    return Request("m", "You are an agent.", tuple(messages), tools)


async def _request(shape: Any) -> float:
    """Microseconds of one fold with one link that changes nothing but a header."""

    async def plain(request: Request, _: Any) -> Request:
        return msgspec.structs.replace(request, extra_headers={"x-team": "blue"})

    def by_keywords(request: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"request": request | {"extra_headers": {"x-team": "blue"}}}

    registry = Registry()
    registry.use("llm_request", plain if shape == "plain" else by_keywords, owner="bench", shape=shape)
    links, request, context = registry.snapshot("llm_request"), _hundred(), PointContext()
    taken = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        changed = await transform(links, request, context, _broken)
        taken.append(time.perf_counter() - began)
        assert changed.extra_headers
    registry.workers.close()
    return statistics.median(taken) * 1e6


def _broken(link: Link, error: BaseException) -> None:
    raise error


def _stream() -> Figure:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hb")))
        plugin = folder / "on" / "home" / "plugins" / "watchers"
        plugin.mkdir(parents=True)
        (plugin / "plugin.yaml").write_text("name: watchers\n")
        (plugin / "plugin.py").write_text(OBSERVERS)
        on = stack.enter_context(running_daemon(folder / "on", "plugins: {enabled: [watchers]}\n"))
        off = stack.enter_context(running_daemon(folder / "off", ""))
        with contextlib.closing(BenchClient(on.socket_path)) as asking:
            asking.initialize()
            rows = asking.request("hermes/plugin/list", {})["plugins"]
            assert "loaded" in {row["state"] for row in rows}, rows
        with_s, without_s = interleaved(_turn(on, folder), _turn(off, folder), PAIRS)
    return Figure(
        f"a stream of {DELTAS:,} deltas with ten observers on each",
        with_s * 1000,
        "ms",
        goal=1.1,
        of="ratio",
        comparison=without_s * 1000,
        compared_with="the same without any",
        note="observers in threads of their own, bounded queues; scripted model, interleaved pairs",
    )


def _turn(daemon: Daemon, folder: Path) -> Callable[[], float]:
    client = BenchClient(daemon.socket_path)
    client.initialize()
    count = iter(range(10**6))

    def measured() -> float:
        session = client.session(f"scripted/words?n={DELTAS}", str(folder))
        client.subscribe(session)
        began = time.perf_counter()
        client.submit(session, f"k{next(count)}", "a word or two")
        client.until_turn_ended()
        taken = time.perf_counter() - began
        client.request("hermes/session/unsubscribe", {"sessionId": session})
        return taken

    return measured
