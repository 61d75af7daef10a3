"""Models asked beside the conversation: which one, how long, what is kept of it, and who may act on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import Chunk, ModelInfo, ProviderFailure, Reply, Request, TextDelta
from hermes_daemon.engine.auxiliary import Unanswered, ask
from hermes_daemon.engine.session import Session
from hermes_daemon.engine.titling import clean
from hermes_daemon.middleware.payloads import AuxiliaryCall
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.middleware.styles import ExecutionBlocked
from hermes_protocol.content import Message, TextPart, Usage
from tests.support.live import Live, Peer, live

QUESTION = Request("", "Name it.", (Message("user", (TextPart("one two three"),)),))


def asking(tmp_path: Path, config: str, work: Callable[[Live, Peer, Session], Awaitable[None]], **parts: Any) -> None:
    async def run() -> None:
        async with live(str(tmp_path / "home"), config=config, **parts) as daemon:
            peer = await daemon.peer()
            session = await peer.session(str(tmp_path), model="scripted/words?n=2")
            await work(daemon, peer, daemon.room.sessions.get(session))

    asyncio.run(run())


def test_the_task_s_own_model_is_asked_and_its_usage_kept_under_the_task(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        reply = await ask("title", QUESTION, session)
        assert reply.message.text == "one two three"
        spent = await peer.request("hermes/usage/get", {"sessionId": session.session_id})
        assert [(row["name"], row["calls"]) for row in spent["byTask"]] == [("title", 1)]
        assert [row["name"] for row in spent["byModel"]] == ["scripted/echo"]
        assert session.row.usage.input_tokens == spent["usage"]["inputTokens"] > 0

    asking(tmp_path, "auxiliary: {title: {model: scripted/echo}}\n", work)


def test_without_settings_the_session_s_model_is_asked(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        assert (await ask("judge", QUESTION, session)).message.text == "word0 word1"

    asking(tmp_path, "", work)


@pytest.mark.parametrize("model", ["scripted/fail?kind=auth&times=0", "scripted/hang", "scripted/nothing"])
def test_a_model_that_fails_hangs_or_is_not_there_is_followed_by_the_session_s(tmp_path: Path, model: str) -> None:
    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        assert (await ask("title", QUESTION, session)).message.text == "word0 word1"

    asking(tmp_path, f"auxiliary: {{title: {{model: '{model}', timeout: 0.2}}}}\n", work)


def test_without_fallback_the_failure_is_told_with_the_setting_that_bounds_it(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        with pytest.raises(Unanswered, match=r"within 0.1 s \(auxiliary.title.timeout\)"):
            await ask("title", QUESTION, session)
        rows = daemon.room.parts.store.spent(session.session_id, "task")
        assert [(row.name, row.calls, row.usage) for row in rows] == [("title", 1, Usage())]  # billed, nobody says what

    asking(tmp_path, "auxiliary: {title: {model: 'scripted/hang?text=so', timeout: 0.1, fallback: false}}\n", work)


class Flaky:
    """Fails once in a way that passes, then answers."""

    name = "test"

    def __init__(self) -> None:
        self.asked = 0

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.asked += 1
        if self.asked == 1:
            raise ProviderFailure("network", "gone", provider="test", retryable=True, retry_after=0.0)
        yield TextDelta("fine")
        yield Reply(Message("assistant", (TextPart("fine"),)), "stop", Usage(5, 1, cost=0.5))

    async def close(self) -> None:
        return None


def test_a_failure_that_passes_is_tried_again(tmp_path: Path) -> None:
    provider = Flaky()

    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        assert (await ask("judge", QUESTION, session)).message.text == "fine"
        assert provider.asked == 2

    asking(tmp_path, "", work, provider=provider, info=ModelInfo("test/m", "m", "test"))


def test_the_points_of_model_calls_are_passed_with_the_task_in_their_context(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    calls: list[AuxiliaryCall] = []

    def narrow(request: Request, context: Any) -> Request:
        seen.append(("llm_request", context.aux_task))
        return msgspec.structs.replace(request, temperature=0.0)

    async def wrap(request: Request, step: Any, context: Any) -> Reply:
        seen.append(("llm_execution", context.aux_task))
        assert request.temperature == 0.0
        reply: Reply = await step(request)
        return reply

    registry = Registry()
    registry.use("llm_request", narrow, owner="test")
    registry.use("llm_execution", wrap, owner="test")
    for point in ("pre_auxiliary_call", "post_auxiliary_call"):
        registry.use(point, lambda payload, context: calls.append(payload), owner="test")

    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        await ask("title", QUESTION, session)
        assert seen == [("llm_request", "title"), ("llm_execution", "title")]
        before, after = calls
        assert (before.aux_task, before.model, before.usage) == ("title", "scripted/echo", None)
        assert after.usage is not None
        assert after.error_message == ""

    asking(tmp_path, "auxiliary: {title: {model: scripted/echo}}\n", work, middleware=registry)


def test_a_veto_holds_for_every_model(tmp_path: Path) -> None:
    asked: list[str] = []

    async def forbid(request: Request, step: Any, context: Any) -> Reply:
        asked.append(request.model)
        raise ExecutionBlocked("not today")

    registry = Registry()
    registry.use("llm_execution", forbid, owner="test")

    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        with pytest.raises(Unanswered, match="not today"):
            await ask("title", QUESTION, session)
        assert asked == ["echo"]

    asking(tmp_path, "auxiliary: {title: {model: scripted/echo}}\n", work, middleware=registry)


# --- titles -----------------------------------------------------------------------------------------------------------


async def title_when(peer: Peer, session: str, wanted: str) -> None:
    while True:
        updated = await peer.event("session.updated")
        if updated["data"]["session"]["title"] == wanted:
            return


def test_with_the_setting_a_model_names_the_session_while_its_first_turn_runs(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        await peer.submit(session.session_id, "please fix the parser")
        await title_when(peer, session.session_id, "word0 word1 word2")
        rows = await peer.request("hermes/session/list", {})
        assert rows["sessions"][0]["title"] == "word0 word1 word2"

    asking(tmp_path, "auxiliary: {title: {model: 'scripted/words?n=3'}}\n", work)


def test_without_it_the_title_is_the_first_line_and_no_model_is_asked(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        await peer.say(session.session_id, "please fix the parser\nnow")
        assert session.row.title == "please fix the parser"
        spent = await peer.request("hermes/usage/get", {"sessionId": session.session_id})
        assert [row["name"] for row in spent["byTask"]] == ["main"]

    asking(tmp_path, "", work)


def test_a_name_that_a_person_gave_meanwhile_stays(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        await session.name("from the model", "")
        await peer.request("hermes/session/rename", {"sessionId": session.session_id, "title": "mine"})
        await session.name("from the model again", "from the model")
        assert session.row.title == "mine"

    asking(tmp_path, "", work)


def test_a_title_that_is_still_wanted_ends_with_the_daemon(tmp_path: Path) -> None:
    async def work(daemon: Live, peer: Peer, session: Session) -> None:
        await peer.say(session.session_id, "please fix the parser")
        assert session.beside

    config = "auxiliary: {title: {model: 'scripted/hang', timeout: 1000, fallback: false}}\n"
    asking(tmp_path, config, work)


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('"Fix the parser."', "Fix the parser"),
        ("\n\n**Fix it**\nBecause you asked.", "Fix it"),
        ("Title: Fix it", "Fix it"),
        ("x" * 100, "x" * 59 + "…"),
        ("…", "…"),
        ('""\n', ""),
        ("", ""),
    ],
)
def test_what_a_model_says_becomes_a_title(answer: str, title: str) -> None:
    assert clean(answer) == title
