"""Answers without a model: what a link at `turn.answer` may give, checked before anybody sees it.

Also where a link's failure is forgiven, a malformed answer is not: the round fails and no provider is asked.
"""

from __future__ import annotations

import re
from typing import Any, Final

from hermes_daemon.middleware.payloads import Answer
from hermes_protocol.content import Deterministic, Message, Part, ReasoningPart, TextPart

CODE: Final = "ERR_PRISM_DETERMINISTIC_TURN"
NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
BLOCKS: Final = ("text", "image", "audio", "file", "document", "video", "thinking")


class DeterministicTurnError(Exception):
    """The answer is none. The message names what was wrong and what was expected."""


def message_of(answer: Any) -> Message:
    """The assistant message an answer stands for: an Answer, or an object {content, provenance: {middleware}}.

    Text and thinking are what they are; of a medium its kind and name remain, as words: a model's history holds
    media of users only. DeterministicTurnError.
    """
    content, name = _read(answer)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise DeterministicTurnError(f"provenance.middleware: expected 1-64 of letters, digits, . _ : -; got {name!r}")
    if not isinstance(content, (list, tuple)) or not content:
        raise DeterministicTurnError(f"content: expected a list with at least one block, got {_kind(content)}")
    parts = tuple(_part(block, index) for index, block in enumerate(content))
    return Message("assistant", parts, deterministic=Deterministic(name))


def _read(answer: Any) -> tuple[Any, Any]:
    if isinstance(answer, Answer):
        return answer.content, answer.middleware
    if isinstance(answer, dict):
        provenance = answer.get("provenance")
        name = provenance.get("middleware") if isinstance(provenance, dict) else answer.get("middleware")
        return answer.get("content"), name
    raise DeterministicTurnError(f"answer: expected an object, got {_kind(answer)}")


def _part(block: Any, index: int) -> Part:
    where = f"content[{index}]"
    if not isinstance(block, dict):
        raise DeterministicTurnError(f"{where}: expected an object, got {_kind(block)}")
    kind, text = block.get("type"), block.get("text")
    if kind not in BLOCKS:
        raise DeterministicTurnError(f"{where}.type: expected one of {', '.join(BLOCKS)}; got {kind!r}")
    if kind in ("text", "thinking"):
        if not isinstance(text, str):
            raise DeterministicTurnError(f"{where}.text: expected a string, got {_kind(text)}")
        return TextPart(text) if kind == "text" else ReasoningPart(text)
    named = next((block[key] for key in ("name", "url", "mimeType", "mime") if isinstance(block.get(key), str)), "")
    return TextPart(f"[{kind} {named}]" if named else f"[{kind}]")


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
