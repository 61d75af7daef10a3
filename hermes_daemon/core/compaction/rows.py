"""Rows of a context: messages with their size and their part in compaction."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from hermes_daemon.core.window import message_tokens
from hermes_protocol.content import Message, TextPart

Kind: TypeAlias = Literal["said", "summary", "stub", "restated"]

STUB = "[folded into the summary below]"


class Row(msgspec.Struct, frozen=True):
    """A message in a context. `tokens` is its raw estimate; `row_id` the store's id, None for a row that compaction
    made and the store has not yet. Kinds: said (by anyone), summary (the marker), stub (of a folded exchange or an
    older marker), restated (the running request again, behind a summary that cut its turn)."""

    message: Message
    tokens: int
    kind: Kind = "said"
    row_id: int | None = None

    @property
    def is_user(self) -> bool:
        """Whether a person (or what speaks for one) wrote it."""
        return self.kind == "said" and self.message.role == "user"


def said(message: Message, row_id: int | None = None) -> Row:
    """A row for a message somebody said."""
    return Row(message, message_tokens(message), "said", row_id)


def written(role: Literal["user", "assistant"], text: str, kind: Kind) -> Row:
    """A row that compaction writes."""
    message = Message(role, (TextPart(text),))
    return Row(message, message_tokens(message), kind)
