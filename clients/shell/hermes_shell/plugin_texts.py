"""The files of a new plugin, a set for each style. Marks such as @ID@ are filled in by plugin_new."""

from __future__ import annotations

MANIFEST = """\
name: @ID@
version: "0.1.0"
description: @ABOUT@
api_version: 1
"""

README = """\
# @ID@

@ABOUT@

    hermes plugins enable @ID@           # let it take part
    hermes plugins config @ID@           # its settings
    hermes plugins reload @ID@           # after a change of its files
    python -m pytest .                   # its test, without a daemon

`register(ctx)` in plugin.py is all the daemon calls; what a plugin may import stands in `hermes_daemon.api`.
"""

HERMES_MANIFEST = """\
provides_tools: [@MODULE@_calls]
provides_hooks: [post_tool_call]
provides_middleware: [llm_request]
config_schema:
  tag:
    type: string
    default: @ID@
    description: what requests to the model are tagged with
"""

HERMES_CODE = '''\
"""Tags what is sent to the model and counts tool calls, in the shape of Hermes' plugins: callables by keywords."""

from collections import Counter
from typing import Any

from hermes_daemon.api import PluginContext


def register(ctx: PluginContext) -> None:
    calls: Counter[str] = Counter()

    def tag_request(request: dict[str, Any], **_: Any) -> dict[str, Any]:
        body = request.get("extra_body", {})
        metadata = {**body.get("metadata", {}), "tag": ctx.get_config("tag")}
        changed = {**request, "extra_body": {**body, "metadata": metadata}}
        return {"request": changed, "source": ctx.plugin_id, "reason": "tagged"}

    def count_call(tool_name: str, status: str) -> None:
        calls[f"{tool_name} {status}"] += 1

    def counted(args: dict[str, Any]) -> dict[str, int]:
        return dict(calls)

    ctx.register_middleware("llm_request", tag_request)
    ctx.register_hook("post_tool_call", count_call)
    ctx.register_tool(
        "@MODULE@_calls",
        counted,
        description="How often each tool was called since the plugin was loaded.",
        schema={"type": "object", "properties": {}},
        read_only=True,
    )
'''

HERMES_TEST = """\
from pathlib import Path

from hermes_daemon.api.testing import a_request, a_result, install

PLUGIN = Path(__file__).parent


def test_requests_are_tagged() -> None:
    with install(PLUGIN, {"tag": "blue"}) as plugin:
        assert plugin.fold("llm_request", a_request("hello")).extra_body == {"metadata": {"tag": "blue"}}


def test_calls_are_counted() -> None:
    with install(PLUGIN) as plugin:
        plugin.observe("post_tool_call", a_result("done", tool="terminal"))
        assert plugin.tool("@MODULE@_calls").text == '{"terminal ok":1}'
"""

PRISM_MANIFEST = """\
provides_middleware: [beforeProviderTurn, tool_result]
config_schema:
  question:
    type: string
    default: ping
    description: the message that is answered without a model
  answer:
    type: string
    default: pong
    description: the answer to it
"""

PRISM_CODE = '''\
"""Answers one message without a model, and marks long results, in the shape of Prism's middleware: fn(value, next)."""

from collections.abc import Callable

from hermes_daemon.api import Answer, PluginContext, Question, ToolDone, replace


def register(ctx: PluginContext) -> None:
    def answer(question: Question, next: Callable[[Question], Question]) -> Question | None:
        if question.user_text.strip().lower() != ctx.get_config("question"):
            return None
        text = {"type": "text", "text": ctx.get_config("answer")}
        return next(replace(question, answer=Answer((text,), ctx.plugin_id)))

    def mark(done: ToolDone, next: Callable[[ToolDone], ToolDone]) -> ToolDone | None:
        if len(done.result) < 2000:
            return None
        return next(replace(done, result=f"[{len(done.result)} characters]\\n{done.result}"))

    ctx.use("beforeProviderTurn", answer)
    ctx.use("tool_result", mark)
'''

PRISM_TEST = """\
from pathlib import Path

from hermes_daemon.api.testing import a_question, a_result, install

PLUGIN = Path(__file__).parent


def test_one_message_is_answered_without_a_model() -> None:
    with install(PLUGIN, {"answer": "here"}) as plugin:
        answered = plugin.fold("beforeProviderTurn", a_question("Ping"))
        assert answered.answer is not None
        assert answered.answer.content == ({"type": "text", "text": "here"},)
        assert plugin.fold("beforeProviderTurn", a_question("anything else")).answer is None


def test_long_results_are_marked() -> None:
    with install(PLUGIN) as plugin:
        assert plugin.fold("tool_result", a_result("x" * 3000)).result.startswith("[3000 characters]\\n")
        assert plugin.fold("tool_result", a_result("short")).result == "short"
"""

PLAIN_MANIFEST = """\
provides_middleware: [llm_execution]
provides_hooks: [pre_tool_call]
config_schema:
  refuse:
    type: array
    items: string
    default: []
    description: tools that never run
"""

PLAIN_CODE = '''\
"""Times model calls and refuses tools by name, with the daemon's own types: one callable at each point."""

import time
from collections.abc import Awaitable, Callable

from hermes_daemon.api import Directive, Operation, PluginContext, PointContext, Reply, Request


def register(ctx: PluginContext) -> None:
    took: list[float] = []

    async def timed(request: Request, next: Callable[[], Awaitable[Reply]], context: PointContext) -> Reply:
        began = time.perf_counter()
        try:
            return await next()
        finally:
            took.append(time.perf_counter() - began)

    def allowed(call: Operation, context: PointContext) -> Directive | None:
        if call.name in ctx.get_config("refuse"):
            return Directive("block", f"{call.name} is refused by {ctx.plugin_id}")
        return None

    def report(arguments: str) -> str:
        return f"{len(took)} model calls, {sum(took):.1f} s"

    ctx.on("llm_execution", timed)
    ctx.on("pre_tool_call", allowed)
    ctx.register_command("@ID@", report, "how long model calls took")
'''

PLAIN_TEST = """\
from pathlib import Path

from hermes_daemon.api.testing import a_call, a_request, install

PLUGIN = Path(__file__).parent


def test_model_calls_are_timed() -> None:
    with install(PLUGIN) as plugin:
        assert plugin.around("llm_execution", a_request("hello"), lambda request: "reply") == "reply"
        assert plugin.command("@ID@").startswith("1 model calls")


def test_a_refused_tool_is_blocked() -> None:
    with install(PLUGIN, {"refuse": ["terminal"]}) as plugin:
        decision = plugin.decide("pre_tool_call", a_call("terminal", command="ls"))
        assert decision is not None
        assert decision.action == "block"
        assert plugin.decide("pre_tool_call", a_call("read_file", path="a")) is None
"""

FILES = {
    "hermes": ("Tags requests to the model and counts tool calls.", HERMES_MANIFEST, HERMES_CODE, HERMES_TEST),
    "prism": ("Answers one message without a model.", PRISM_MANIFEST, PRISM_CODE, PRISM_TEST),
    "plain": ("Times model calls and refuses tools by name.", PLAIN_MANIFEST, PLAIN_CODE, PLAIN_TEST),
}
