"""How much of a model's context window a conversation fills. Estimates, corrected by what providers report.

No tokenizer is loaded: bytes are counted by class (letters, digits, punctuation, spaces, other scripts), each class
with its own weight, because JSON, hex dumps and tables are twice as dense as prose. The weights were fitted to a public
vocabulary of 200,000 tokens over ten kinds of agent sessions and stay within a tenth of its count on each of them; a
factor learned per model from reported usage does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from hermes_daemon.core.ports import ToolSpec
from hermes_protocol.content import ImagePart, Message, ReasoningPart, TextPart, ToolCall

_CLASSES = (  # tokens a byte of the class costs
    (bytes(range(97, 123)), 0.162),
    (bytes(range(65, 91)), 0.2),
    (b"0123456789", 0.69),
    (b" ", 0.32),
    (b"\n\t\r", 0.575),
    (bytes(range(128, 256)), 0.367),
)
_OTHER = 0.652  # punctuation and control characters
_INDENT = -0.33  # the second of two spaces: runs of them are one token
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
    """The raw estimate for a text; 0 only for the empty one."""
    if not text:
        return 0
    data = text.encode("utf-8", "surrogatepass")
    rest = len(data)
    total = _INDENT * data.count(b"  ")
    for members, weight in _CLASSES:
        count = len(data) - len(data.translate(None, members))
        total += weight * count
        rest -= count
    return max(math.ceil(total + _OTHER * rest), 1)


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
        total += text_tokens(tool.name) + text_tokens(tool.description) + text_tokens(schema.decode())
    return total + sum(map(message_tokens, messages))


def occupancy(tokens: int, context_length: int) -> float:
    """How full the window is, in percent with one decimal; above 100 when it does not fit."""
    return round(100.0 * max(tokens, 0) / max(context_length, 1), 1)


def input_room(context_length: int, max_output: int | None) -> int:
    """Tokens a request may fill so that an answer still fits: the window without max_output, or without a tenth."""
    reserve = max_output if max_output is not None else context_length // 10
    return max(context_length - min(reserve, context_length // 2), 0)
