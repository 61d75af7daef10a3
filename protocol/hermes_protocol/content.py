"""What a conversation is made of: messages and their parts, tool calls and results, usage, input blocks.

These Structs are the one vocabulary of the project: the core thinks in them, the store keeps them, clients show
them. Provider formats never appear here. Wire names are camelCase; unknown keys are ignored on decoding.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Base of every Struct on the wire: camelCase names, defaults left out, immutable."""


# --- parts of a message -------------------------------------------------------------------------------------------


class TextPart(Wire, tag="text", tag_field="type", frozen=True):
    """Plain text."""

    text: str


class ReasoningPart(Wire, tag="reasoning", tag_field="type", frozen=True):
    """Thinking a model showed. `opaque` is provider data that must go back byte for byte (signatures)."""

    text: str
    opaque: str | None = None


class ImagePart(Wire, tag="image", tag_field="type", frozen=True):
    """An image: base64 `data`, or the id of a blob the daemon keeps."""

    mime: str
    data: str | None = None
    blob_id: str | None = None


class ToolCall(Wire, tag="toolCall", tag_field="type", frozen=True):
    """A call as the model wrote it. `arguments` is the raw JSON text, kept even when it does not parse. `opaque` is
    provider data that must go back with the call byte for byte (signatures)."""

    call_id: str
    name: str
    arguments: str
    opaque: str | None = None


class ToolResult(Wire, tag="toolResult", tag_field="type", frozen=True):
    """The answer to one call: what the model reads. `is_error` marks a failed or refused call."""

    call_id: str
    text: str
    is_error: bool = False


Part: TypeAlias = TextPart | ReasoningPart | ImagePart | ToolCall | ToolResult


class Deterministic(Wire, frozen=True):
    """Who answered in place of a model: the id a middleware gave itself."""

    middleware: str


class Message(Wire, frozen=True):
    """One row of the history a model sees. A `tool` message holds exactly one ToolResult. `deterministic` is set where
    a middleware answered."""

    role: Role
    parts: tuple[Part, ...]
    partial: bool = False
    item_id: str | None = None
    deterministic: Deterministic | None = None

    @property
    def text(self) -> str:
        """All text parts joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of an assistant message, in the model's order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results held by a tool message."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


class Usage(Wire, frozen=True):
    """Tokens of one round or the sum over a turn or session. `input_tokens` counts all that was read, those read from
    or written to a cache among them. `cost` is in US dollars and absent when no price is known; with `cost_partial` it
    is only what is known of it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    cost_partial: bool = False

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0)
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            cost,
            cost is not None and (self._cost_unclear or other._cost_unclear),
        )

    @property
    def _cost_unclear(self) -> bool:
        """Something was used whose cost is unknown."""
        return self.cost_partial or (self.cost is None and self.input_tokens + self.output_tokens > 0)


# --- input blocks a client sends ----------------------------------------------------------------------------------


class TextBlock(Wire, tag="text", tag_field="type", frozen=True):
    """Text the user typed."""

    text: str


class ImageBlock(Wire, tag="image", tag_field="type", frozen=True):
    """An image the user attached: base64 `data` or a `blobId`."""

    mime: str
    data: str | None = None
    blob_id: str | None = None


class FileRange(Wire, frozen=True):
    """Line range, 1-based, inclusive."""

    start: int
    end: int


class FileBlock(Wire, tag="file", tag_field="type", frozen=True):
    """A file the user points at: `path` or `uri`, with an optional range and the text the client sees, given as
    `text` or as the `blobId` of a text blob."""

    path: str | None = None
    uri: str | None = None
    range: FileRange | None = None
    text: str | None = None
    blob_id: str | None = None


InputBlock: TypeAlias = TextBlock | ImageBlock | FileBlock


class By(Wire, frozen=True):
    """Who did it: the client's persistent id, its name and the way in (chat, say, acp, hook, …). `depth` is the number
    of agents between a person and this."""

    client_id: str
    name: str = ""
    via: str = ""
    depth: int = 0


def input_text(blocks: tuple[InputBlock, ...]) -> str:
    """The text a list and a search show for an input: text blocks as they are, the rest as words in brackets."""
    words = []
    for block in blocks:
        if isinstance(block, TextBlock):
            words.append(block.text)
        elif isinstance(block, FileBlock):
            words.append(f"[file {block.path or block.uri}]")
        else:
            words.append(f"[image {block.mime}]")
    return "\n".join(words)


def input_parts(blocks: tuple[InputBlock, ...]) -> tuple[Part, ...]:
    """The message parts a model reads for an input."""
    parts: list[Part] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append(TextPart(block.text))
        elif isinstance(block, ImageBlock):
            parts.append(ImagePart(block.mime, block.data, block.blob_id))
        else:
            where = block.path or block.uri or "file"
            lines = f" lines {block.range.start}-{block.range.end}" if block.range else ""
            body = f"\n{block.text}" if block.text else ""
            parts.append(TextPart(f"[{where}{lines}]{body}"))
    return tuple(parts)
