"""From the history to the request of one round, through the middleware points on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hermes_daemon.core import history as laws
from hermes_daemon.core import prompt as prompts
from hermes_daemon.core import window
from hermes_daemon.core.ports import ModelInfo, Request, ToolSpec
from hermes_daemon.core.prompt import Prompt
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.passage import Corrected, Passage
from hermes_daemon.engine.uploads import with_images
from hermes_protocol.content import Message
from hermes_protocol.events import Notice

if TYPE_CHECKING:
    from hermes_daemon.engine.runner import Runner


async def prompt(runner: Runner, points: Passage, model: ModelInfo, history: tuple[Message, ...]) -> Prompt:
    """messages, context_blocks, prompt. The tools stay what the session has, whatever middleware says."""
    session = runner.session
    messages = await points.fold("messages", history)
    date = session.parts.clock.now()[:10]
    blocks = prompts.blocks(session.row.cwd, date, session.parts.settings().agent.system_prompt)
    blocks += tuple(prompts.Block("plugin", text) for text in session.sections)
    composed = prompts.compose(model, await points.fold("context_blocks", blocks), messages, _tools(runner, model))
    return await points.fold(
        "prompt", composed, lambda before, after: msgspec.structs.replace(after, tools=before.tools)
    )


async def request(runner: Runner, points: Passage, model: ModelInfo, prompt: Prompt) -> Request:
    """The request that fits the window, and llm_request. Middleware may narrow the tools, not add any."""
    session = runner.session
    settings = session.parts.settings().model
    max_output = settings.max_output or model.max_output
    fitted = await _fitted(runner, model, prompt, max_output)
    made = prompts.request(
        msgspec.structs.replace(fitted, messages=with_images(session.parts.store, fitted.messages)),
        model,
        max_output=max_output,
        temperature=settings.temperature,
        thinking=runner.thinking or session.row.options.thinking or settings.thinking,
        session_id=session.session_id,
    )
    if points.has("llm_request"):
        points.original = made
    return await points.fold("llm_request", made, lambda before, after: narrowed(made, after))


def narrowed(made: Request, changed: Request) -> Request | Corrected:
    """`changed` without the tools that `made` did not have."""
    active = {tool.name for tool in made.tools}
    tools = tuple(tool for tool in changed.tools if tool.name in active)
    if len(tools) == len(changed.tools):
        return changed
    return Corrected(msgspec.structs.replace(changed, tools=tools), "tool_added_rejected")


def _tools(runner: Runner, model: ModelInfo) -> tuple[ToolSpec, ...]:
    return tuple(tool.card.spec() for tool in runner.active_tools()) if model.tools else ()


async def _fitted(runner: Runner, model: ModelInfo, prompt: Prompt, max_output: int | None) -> Prompt:
    """Leave the oldest exchanges out of what is sent when the window cannot hold them; say so."""
    session = runner.session
    room = window.input_room(model.context_length, max_output)
    calibration = session.estimates.calibration(model.id)
    fixed = window.request_tokens((), prompt.system, prompt.tools)
    sizes = [session.estimates.size_of(message) for message in prompt.messages]
    left = sum(sizes)
    runner.occupancy = window.occupancy(calibration.tokens(fixed + left), model.context_length)
    if calibration.tokens(fixed + left) <= room:
        return prompt
    cuts = set(laws.cut_points(prompt.messages)[:-1])
    for cut, message in enumerate(prompt.messages):
        asked = message.role == "user" and not laws.is_context(prompt.messages, cut)
        if cut in cuts and asked and calibration.tokens(fixed + left) <= room:
            text = f"The conversation is longer than {model.id} can read; its first {cut} messages were left out."
            await session.feed.post([Draft(Notice("warning", text, "context.trimmed"), runner.turn_id)])
            return msgspec.structs.replace(prompt, messages=prompt.messages[cut:])
        left -= sizes[cut]
    return prompt
