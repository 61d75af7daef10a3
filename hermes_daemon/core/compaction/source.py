"""Rows as the text a summarizer reads: labelled, redacted before anything is cut, and bounded row by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from hermes_daemon.core.compaction.rows import Row
from hermes_daemon.core.window import text_tokens
from hermes_protocol.content import ImagePart, Message, TextPart, ToolCall, ToolResult

Redact: TypeAlias = Callable[[str], str]

BODY, BODY_HEAD, BODY_TAIL = 6_000, 4_000, 1_500
ARGUMENTS, ARGUMENTS_HEAD = 1_500, 1_200
REDACTED = "[REDACTED]"
_MASK = re.compile(r"\S{6}\.\.\.\S{4}|\*{3,}")


def censored(text: str, redact: Redact) -> str:
    """The text with every credential replaced by `[REDACTED]`: a summarizer needs not even the ends of one."""
    masked = redact(text)
    if masked == text:
        return text
    return _MASK.sub(lambda match: match[0] if match[0] in text else REDACTED, masked)


def clip(text: str, most: int, head: int, tail: int) -> str:
    """The text, or its head and tail around a note of how much is missing."""
    if len(text) <= most:
        return text
    cut = len(text) - head - tail
    return f"{text[:head]}\n[... {cut:,} characters left out ...]\n{text[len(text) - tail :] if tail else ''}"


def row_text(message: Message, redact: Redact) -> str:
    """One row for a summarizer; reasoning is left out."""
    pieces: list[str] = []
    for part in message.parts:
        match part:
            case TextPart():
                pieces.append(clip(censored(part.text, redact), BODY, BODY_HEAD, BODY_TAIL))
            case ToolCall():
                given = clip(censored(part.arguments, redact), ARGUMENTS, ARGUMENTS_HEAD, 0)
                pieces.append(f"[calls {part.name}] {given}")
            case ToolResult():
                failed = " failed" if part.is_error else ""
                body = clip(censored(part.text, redact), BODY, BODY_HEAD, BODY_TAIL)
                pieces.append(f"[result {part.call_id}{failed}] {body}")
            case ImagePart():
                pieces.append(f"[image {part.mime}]")
            case _:
                pass
    label = {"user": "USER", "assistant": "ASSISTANT", "tool": "TOOL", "system": "SYSTEM"}[message.role]
    return f"{label}: " + "\n".join(pieces)


def source_parts(rows: Iterable[Row], redact: Redact, most: int) -> tuple[str, ...]:
    """The rows as texts of at most about `most` tokens each, to be merged into the summary one after the other.

    Markers, stubs and restated requests are not told again. A single row is never larger than its clipped bodies, so a
    part exceeds `most` only when `most` is smaller than one row.
    """
    parts: list[str] = []
    lines: list[str] = []
    used = 0
    for row in rows:
        if row.kind != "said":
            continue
        text = row_text(row.message, redact)
        size = text_tokens(text)
        if lines and used + size > most:
            parts.append("\n\n".join(lines))
            lines, used = [], 0
        if size > most:
            text = clip(text, 2 * most, most, most // 2)
            size = text_tokens(text)
        lines.append(text)
        used += size
    if lines:
        parts.append("\n\n".join(lines))
    return tuple(parts)


def mentioned(rows: Sequence[Row], redact: Redact) -> list[tuple[str, float]]:
    """Texts and the weight of an identifier in them: what the agent said or typed counts thrice what it was shown."""
    texts: list[tuple[str, float]] = []
    for row in rows:
        if row.kind != "said":
            continue
        for part in row.message.parts:
            if isinstance(part, TextPart):
                texts.append((censored(part.text, redact), 3.0 if row.message.role == "assistant" else 2.0))
            elif isinstance(part, ToolCall):
                texts.append((censored(part.arguments, redact), 3.0))
            elif isinstance(part, ToolResult):
                texts.append((censored(part.text, redact), 1.0))
    return texts
