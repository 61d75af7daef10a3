"""A damaged transcript on the disk, one more message, and the request that leaves: one that every provider takes."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.records import AddMessage, PutSession, SessionRow
from hermes_daemon.core.settings import DatabaseSettings, ProviderSettings
from hermes_daemon.engine.identity import SystemClock
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_daemon.store.sqlite import SqliteStore
from hermes_protocol.content import Message, Part, TextPart, ToolCall, ToolResult
from tests.support.live import live
from tests.support.recording_endpoint import Endpoint, recording_endpoint, text
from tests.support.shared_data import case

NOW = "2026-01-01T00:00:00.000Z"
SESSION = "s_stored"


def stored(rows: list[dict[str, Any]]) -> list[Message]:
    """Rows as a provider writes them, as the messages that lie in the store."""
    messages = []
    for row in rows:
        parts: list[Part] = []
        if row["role"] == "tool":
            parts.append(ToolResult(row["tool_call_id"], row["content"]))
        elif row.get("content"):
            parts.append(TextPart(row["content"]))
        made = [(call["id"], call["function"]) for call in row.get("tool_calls", ())]
        parts += [ToolCall(call_id, call["name"], call["arguments"]) for call_id, call in made]
        messages.append(Message(row["role"], tuple(parts)))
    return messages


def send_after(home: Path, messages: list[Message], endpoint: Endpoint) -> None:
    """Put the messages on the disk as a session, start a daemon on it and send one more."""

    async def story() -> None:
        home.mkdir(exist_ok=True)
        store = SqliteStore.open(str(home / "state.db"), DatabaseSettings(), SystemClock())
        row = SessionRow(session_id=SESSION, epoch="e", cwd=str(home), created_at=NOW, updated_at=NOW)
        await store.write(PutSession(row=row), *(AddMessage(session_id=SESSION, message=m) for m in messages))
        await store.close()
        provider = HttpProvider("lab", ProviderSettings(base_url=endpoint.base_url), lambda _: None)
        async with live(str(home), provider=provider) as daemon:
            peer = await daemon.peer()
            await peer.request("hermes/session/subscribe", {"sessionId": SESSION})
            ended = await peer.say(SESSION, "one more")
            assert ended["data"]["status"] == "completed", ended
        await provider.close()

    asyncio.run(story())


def acceptable(rows: list[dict[str, Any]]) -> None:
    """What the strictest servers ask: every call answered right behind it, once; arguments that are objects."""
    waiting: list[str] = []
    seen: set[str] = set()
    for row in rows:
        if row["role"] == "tool":
            assert row["tool_call_id"] in waiting, row
            waiting.remove(row["tool_call_id"])
            continue
        assert not waiting, f"no result for {waiting}"
        for made in row.get("tool_calls", ()):
            assert made["id"] not in seen
            seen.add(made["id"])
            waiting.append(made["id"])
            assert isinstance(json.loads(made["function"]["arguments"]), dict)
    assert not waiting


@pytest.mark.parametrize(
    "name",
    [
        "history-compaction-orphan-call",
        "history-compaction-orphan-result",
        "history-empty-arguments",
        "history-truncated-arguments",
    ],
)
def test_a_damaged_transcript_leaves_as_one_that_is_accepted(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = json.loads((case("history", name) / "transcript.json").read_text())
    with recording_endpoint(text("fine")) as endpoint, caplog.at_level(logging.WARNING):
        send_after(tmp_path / "h", stored(rows), endpoint)
    sent = endpoint.messages()
    acceptable(sent)
    assert sent[-1]["content"].endswith("one more")
    told = [record.getMessage() for record in caplog.records if SESSION in record.getMessage()]
    if name != "history-empty-arguments":
        assert len(told) == 1
        assert "repaired" in told[0]


def test_an_orphan_call_is_answered_and_ids_that_occur_twice_are_told_apart(tmp_path: Path) -> None:
    rows = json.loads((case("history", "history-compaction-orphan-call") / "transcript.json").read_text())
    with recording_endpoint(text("fine")) as endpoint:
        send_after(tmp_path / "h", stored(rows), endpoint)
    results = endpoint.results()
    assert results[0] == "A"
    assert "no longer available" in results[1]
    assert "c" in [row["content"] for row in endpoint.messages()][-1]


def test_an_orphan_result_becomes_words(tmp_path: Path) -> None:
    rows = json.loads((case("history", "history-compaction-orphan-result") / "transcript.json").read_text())
    with recording_endpoint(text("fine")) as endpoint:
        send_after(tmp_path / "h", stored(rows), endpoint)
    assert endpoint.results() == []
    assert "output of a call that was summarised away" in json.dumps(endpoint.messages())


def test_a_cut_call_is_quoted_and_never_made_shorter(tmp_path: Path) -> None:
    rows = json.loads((case("history", "history-truncated-arguments") / "transcript.json").read_text())
    with recording_endpoint(text("fine")) as endpoint:
        send_after(tmp_path / "h", stored(rows), endpoint)
    made = next(row for row in endpoint.messages() if row.get("tool_calls"))["tool_calls"][0]
    assert json.loads(made["function"]["arguments"]) == {
        "invalid_arguments": rows[1]["tool_calls"][0]["function"]["arguments"]
    }


def test_arguments_that_are_no_object_are_quoted_in_bounds(tmp_path: Path) -> None:
    texts = json.loads((case("history", "history-non-object-arguments") / "arguments.json").read_text())
    texts.append("x" * 100_000)
    messages = [Message("user", (TextPart("go"),))]
    for number, arguments in enumerate(texts):
        messages.append(Message("assistant", (ToolCall(f"c{number}", "read_file", arguments),)))
        messages.append(Message("tool", (ToolResult(f"c{number}", "refused", is_error=True),)))
    with recording_endpoint(text("fine")) as endpoint:
        send_after(tmp_path / "h", messages, endpoint)
    sent = endpoint.messages()
    acceptable(sent)
    arguments = [row["tool_calls"][0]["function"]["arguments"] for row in sent if row.get("tool_calls")]
    assert json.loads(arguments[3]) == {"path": "a"}
    assert len(arguments[-1]) < 1000
    assert "100000 characters" in arguments[-1]


def test_a_message_leaves_once_in_a_new_session_and_after_a_restart(tmp_path: Path) -> None:
    async def story(endpoint: Endpoint) -> None:
        provider = HttpProvider("lab", ProviderSettings(base_url=endpoint.base_url), lambda _: None)
        async with live(str(tmp_path), provider=provider) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path))
            await peer.say(session, "first")
            await peer.say(session, "second")
        async with live(str(tmp_path), provider=provider) as daemon:
            peer = await daemon.peer()
            await peer.request("hermes/session/subscribe", {"sessionId": session})
            await peer.say(session, "third")
        await provider.close()

    with recording_endpoint(text("fine")) as endpoint:
        asyncio.run(story(endpoint))
    said = [[row["content"] for row in endpoint.messages(n) if row["role"] == "user"] for n in range(3)]
    assert said == [["first"], ["first", "second"], ["first", "second", "third"]]


def test_a_sound_transcript_is_not_spoken_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    messages = [Message("user", (TextPart("a"),)), Message("assistant", (TextPart("b"),))]
    with recording_endpoint(text("fine")) as endpoint, caplog.at_level(logging.WARNING):
        send_after(tmp_path / "h", messages, endpoint)
    assert [row["content"] for row in endpoint.messages()] == ["a", "b", "one more"]
    assert not caplog.records
