"""History, blocks and tools become the Request of one round. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hermes_daemon.core.history import joined, repair
from hermes_daemon.core.ports import ModelInfo, Request, ToolSpec
from hermes_protocol.content import Message

_WITH_TOOLS = """\
You are Hermes, a coding agent at work in the user's own directory.
Work with the tools: look before you change anything, make the smallest change that does the job, and check it by \
running something. Say what you did in a few plain sentences, and what you could not do.
Paths are relative to the working directory. A refused call is refused: do not try to reach the same end another way, \
ask or explain instead."""

_WITHOUT_TOOLS = "You are a helpful assistant."


class Block(msgspec.Struct, frozen=True):
    """A named piece of context that goes into the system prompt."""

    name: str
    text: str


class Prompt(msgspec.Struct, frozen=True):
    """What middleware sees at the point `prompt`: everything of a request but its parameters."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]


def blocks(cwd: str, date: str, instructions: str) -> tuple[Block, ...]:
    """The context every session has: where and when it is, and what the user configured."""
    own = (Block("environment", f"Working directory: {cwd}\nToday's date: {date}"),)
    return (*own, Block("instructions", instructions)) if instructions else own


def compose(model: ModelInfo, context: Sequence[Block], messages: tuple[Message, ...],
            tools: tuple[ToolSpec, ...]) -> Prompt:  # fmt: skip
    """The prompt for a model. One without tools gets none and a short system prompt (decisions 29)."""
    if not model.tools:
        return Prompt(_WITHOUT_TOOLS, messages, ())
    system = "\n\n".join([_WITH_TOOLS, *(block.text for block in context if block.text)])
    return Prompt(system, messages, tools)


def request(prompt: Prompt, model: ModelInfo, *, max_output: int | None, temperature: float | None,
            thinking: str | None, session_id: str) -> Request:  # fmt: skip
    """The request that leaves; the history is one that every provider accepts."""
    messages, _ = repair(joined(prompt.messages))
    return Request(
        model=model.name,
        system=prompt.system,
        messages=messages,
        tools=prompt.tools,
        max_output=max_output,
        temperature=temperature,
        thinking=thinking,
        session_id=session_id,
    )
