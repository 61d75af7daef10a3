"""What is shown and kept of tools: whole lines without secrets, both ends of what is too long, masked arguments."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hermes_daemon.core.history import is_object
from hermes_protocol.content import Message, ToolCall

MAX_HELD = 8_192


class LineRedactor:
    """Redacts a stream. A secret may be cut anywhere by the pipe, so only whole lines pass; a key block is held to
    its end."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._held = ""

    def feed(self, text: str) -> str:
        """What may be shown now."""
        self._held += text
        end = self._held.rfind("\n") + 1
        block = self._held.find("-----BEGIN ")
        if block >= 0 and "-----END " not in self._held[block:]:
            end = min(end, block)
        if len(self._held) - end > MAX_HELD:
            end = len(self._held)
        ready, self._held = self._held[:end], self._held[end:]
        return self._redact(ready) if ready else ""

    def rest(self) -> str:
        """What was held back, at the end of the stream."""
        held, self._held = self._held, ""
        return self._redact(held) if held else ""


def clip(text: str, chars: int) -> tuple[str, str]:
    """The first 40 % and the last 60 % of `chars` characters."""
    head = chars * 2 // 5
    return text[:head], text[len(text) - (chars - head) :]


def without_secrets(message: Message, redact: Callable[[str], str]) -> Message:
    """The message as it is kept: credentials in the arguments of its calls masked. The calls themselves are run as
    the model wrote them; arguments that are an object stay one."""
    if not message.calls:
        return message
    parts = tuple(_masked(part, redact) if isinstance(part, ToolCall) else part for part in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def _masked(call: ToolCall, redact: Callable[[str], str]) -> ToolCall:
    masked = redact(call.arguments)
    if is_object(call.arguments) and not is_object(masked):  # the mask swallowed a quote
        masked = msgspec.json.encode({"masked_arguments": masked}).decode()
    return msgspec.structs.replace(call, arguments=masked) if masked != call.arguments else call
