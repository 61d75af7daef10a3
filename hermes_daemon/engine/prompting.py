"""From the history to the request of one round, through the middleware points on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hermes_daemon.core import prompt as prompts
from hermes_daemon.core import window
from hermes_daemon.core.fitting import fit
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


async def _thinking(runner: Runner, model: ModelInfo) -> str | None:
    """The effort that was asked for. Nobody asked it of a model that stands in for another: there it is left out,
    and that is said, when it does not take it."""
    session = runner.session
    wanted = runner.thinking or session.row.options.thinking or session.parts.settings().model.thinking
    if wanted is None or runner.stand_in != model.id or model.efforts is None or wanted in model.efforts:
        return wanted
    text = f"{model.id} takes no reasoning effort {wanted!r}; it is asked without."
    await session.feed.post([Draft(Notice("info", text, "model.thinking"), runner.turn_id)])
    return None


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
        thinking=await _thinking(runner, model),
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
    """Leave out of what is sent what the window cannot hold; say so."""
    session = runner.session
    room = window.input_room(model.context_length, max_output)
    room = room if runner.room is None else min(room, runner.room)
    calibration = session.estimates.calibration(model.id)
    fixed = window.request_tokens((), prompt.system, prompt.tools)
    left = sum(map(session.estimates.size_of, prompt.messages))
    runner.occupancy = window.occupancy(calibration.tokens(fixed + left), model.context_length)
    if calibration.tokens(fixed + left) <= room:
        return prompt
    fitted = fit(prompt.messages, room / calibration.factor - fixed, session.estimates.size_of)
    told = []
    if fitted.left_out:
        told.append(f"its first {fitted.left_out} messages were left out")
    if fitted.cut:
        told.append(f"{fitted.cut} long results of tools were cut" if fitted.cut > 1 else "a long result was cut")
    if not told:
        return prompt
    text = f"The conversation is longer than {model.id} can read; {' and '.join(told)}."
    await session.feed.post([Draft(Notice("warning", text, "context.trimmed"), runner.turn_id)])
    return msgspec.structs.replace(prompt, messages=fitted.messages)
