"""How much of a model's context window a conversation fills. Estimates, corrected by what providers report.

No tokenizer is loaded: the estimate is UTF-8 bytes over 3.6 (equal to characters for ASCII, and near the truth for
scripts whose characters are several bytes), times a factor learned per model from reported usage.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hermes_daemon.core.ports import ToolSpec
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart, ToolCall

BYTES_PER_TOKEN = 3.6
MESSAGE_TOKENS = 4  # role and separators
IMAGE_TOKENS = 1_000  # endpoints bill images between some 250 and 1,600 tokens, by size
SMALLEST_SAMPLE = 64  # below it the fixed costs of chat templates drown the signal
_LOWEST, _HIGHEST = 0.25, 4.0


class Calibration(msgspec.Struct, frozen=True):
    """The learned factor between our estimate and a model's count, and how many reports made it."""

    factor: float = 1.0
    samples: int = 0

    def update(self, estimated: int, reported: int) -> Calibration:
        """The calibration after one report: `estimated` is our raw estimate of the same request, not yet corrected.

        The first report is taken as it is, later ones move the factor by a third, so one odd count does not rule.
        Reports that cannot be true (nothing, or far outside 0.25 to 4 times the estimate) are clamped or ignored.
        """
        if estimated < SMALLEST_SAMPLE or reported <= 0:
            return self
        seen = min(max(reported / estimated, _LOWEST), _HIGHEST)
        factor = seen if self.samples == 0 else self.factor + (seen - self.factor) / 3
        return Calibration(factor, self.samples + 1)

    def tokens(self, estimated: int) -> int:
        """The corrected estimate."""
        return round(estimated * self.factor)


def text_tokens(text: str) -> int:
    """The raw estimate for a text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return int(size / BYTES_PER_TOKEN + 0.999)


def message_tokens(message: Message) -> int:
    """The raw estimate for one message with all its parts."""
    total = MESSAGE_TOKENS
    for part in message.parts:
        if isinstance(part, TextPart | ReasoningPart):
            total += text_tokens(part.text)
        elif isinstance(part, ImagePart):
            total += IMAGE_TOKENS
        elif isinstance(part, ToolCall):
            total += text_tokens(part.name) + text_tokens(part.arguments) + MESSAGE_TOKENS
        else:
            total += text_tokens(part.text)
    return total


def request_tokens(messages: Iterable[Message], system: str = "", tools: Iterable[ToolSpec] = ()) -> int:
    """The raw estimate for everything a request sends."""
    total = text_tokens(system) + MESSAGE_TOKENS if system else 0
    for tool in tools:
        schema = msgspec.json.encode(tool.parameters)
        total += text_tokens(tool.name) + text_tokens(tool.description) + int(len(schema) / BYTES_PER_TOKEN + 0.999)
    return total + sum(map(message_tokens, messages))


def occupancy(tokens: int, context_length: int) -> float:
    """How full the window is, in percent with one decimal; above 100 when it does not fit."""
    return round(100.0 * max(tokens, 0) / max(context_length, 1), 1)


def input_room(context_length: int, max_output: int | None) -> int:
    """Tokens a request may fill so that an answer still fits: the window without max_output, or without a tenth."""
    reserve = max_output if max_output is not None else context_length // 10
    return max(context_length - min(reserve, context_length // 2), 0)
