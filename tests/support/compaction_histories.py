"""Contexts for the tests of compaction: random lawful histories, the public transcripts, short hand-made ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st

from hermes_daemon.core.compaction.context import Context
from hermes_daemon.core.compaction.limits import Limits
from hermes_protocol.content import Message, TextPart, ToolCall, ToolResult
from tests.support.shared_data import REPOSITORY

SMALL = Limits(window=4_000, threshold=2_400, tail=300, gate=0, summary_input=2_400)
"""Limits that short histories reach."""


def plain(text: str) -> str:
    """A redactor that finds nothing."""
    return text


def user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def assistant(text: str, *calls: ToolCall) -> Message:
    return Message("assistant", ((TextPart(text),) if text else ()) + calls)


def result(call_id: str, text: str, *, is_error: bool = False) -> Message:
    return Message("tool", (ToolResult(call_id, text, is_error),))


def context(*messages: Message) -> Context:
    """A context of these messages; row ids count from 1."""
    made = Context()
    for number, message in enumerate(messages, 1):
        made.append(message, number)
    return made


def session(turns: int, size: int = 600, start: int = 0) -> list[Message]:
    """A lawful session: each turn asks, reads `size` characters, answers with a name of its own."""
    rows: list[Message] = []
    for number in range(start, start + turns):
        call = ToolCall(f"c{number}", "read_file", json.dumps({"path": f"/srv/log/shard-{number}.log"}))
        rows += [
            user(f"Please look at shard {number}."),
            assistant(f"Reading shard {number}.", call),
            result(call.call_id, f"row {number} of table_{number} is fine\n" * (size // 30)),
            assistant(f"Shard {number} is done: ticket OPS-{5100 + number} was opened for it."),
        ]
    return rows


@st.composite
def lawful(draw: st.DrawFn) -> list[Message]:
    """Any history that keeps the laws: turns with several users in a row, parallel calls, long runs, silent rounds."""
    rows: list[Message] = []
    number = 0
    word = st.text(alphabet="ab _/.1é漢\n", min_size=1, max_size=40).filter(lambda text: not text.isspace())
    for _ in range(draw(st.integers(1, 8))):
        for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
            rows.append(user(f"ask {number} {draw(word)}"))
            number += 1
        for _ in range(draw(st.integers(0, 5))):
            calls = []
            for _ in range(draw(st.sampled_from((1, 1, 2, 3)))):
                calls.append(ToolCall(f"c{number}", "tool", json.dumps({"path": f"/p/{number}"})))
                number += 1
            rows.append(assistant(draw(st.sampled_from(("", "I look."))), *calls))
            rows += [result(call.call_id, draw(word) * draw(st.sampled_from((1, 20, 80)))) for call in calls]
        if draw(st.booleans()):
            rows.append(assistant(f"answer {number} " + draw(word) * draw(st.sampled_from((1, 10)))))
    return rows


def transcripts(least_tokens: int = 0) -> Iterator[tuple[str, str, list[dict[str, object]]]]:
    """The public sessions as (id, family, rows); the test is skipped where they are not."""
    root = Path(os.environ.get("HERMES_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")
    file = root / "transcripts" / "dev.jsonl"
    if not file.is_file():
        pytest.skip("the transcripts are not here; HERMES_SHARED_DATA names the folder that holds transcripts/")
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if len(line) < least_tokens * 4:
                continue
            one = json.loads(line)
            yield one["id"], one["family"], one["messages"]


def bench_folder() -> Path:
    """The folder of the handed bench; the test is skipped where it is not."""
    root = Path(os.environ.get("HERMES_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")
    folder = root.parent / "bench" / "compaction"
    if not folder.is_dir():
        pytest.skip("the compaction bench is not here: it is looked for in bench/compaction beside HERMES_SHARED_DATA")
    return folder
