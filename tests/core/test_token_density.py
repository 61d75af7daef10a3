"""The estimate against a real vocabulary, over the public sessions."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from hermes_daemon.core.window import text_tokens
from tests.support.compaction_histories import transcripts


def texts(message: dict[str, Any]) -> list[str]:
    content = message.get("content") or ""
    found = [content] if isinstance(content, str) else [piece.get("text", "") for piece in content]
    return [*found, *(call["function"]["arguments"] for call in message.get("tool_calls") or ())]


def test_every_family_of_sessions_is_estimated_within_a_tenth() -> None:
    vocabulary = pytest.importorskip("bpe_openai").get_encoding("o200k_base")
    estimated: dict[str, int] = defaultdict(int)
    counted: dict[str, int] = defaultdict(int)
    for _, family, messages in transcripts():
        if family.startswith("long-"):
            continue  # the same sessions, joined
        for message in messages:
            for text in texts(message):
                estimated[family] += text_tokens(text)
                counted[family] += len(vocabulary.encode(text)) if text else 0
    ratios = {family: estimated[family] / counted[family] for family in counted}
    assert len(ratios) >= 10
    assert all(0.9 <= ratio <= 1.1 for ratio in ratios.values()), ratios
