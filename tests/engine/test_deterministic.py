"""Answers without a model: rules D1 to D11 of the contract, each named in its test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_daemon.core.ports import Chunk, Reply, Request, TextDelta, ToolContext, ToolOutcome
from hermes_daemon.middleware.answers import DeterministicTurnError, message_of
from hermes_daemon.middleware.payloads import Answer, Question
from hermes_daemon.middleware.registry import Registry
from hermes_protocol.content import Message, TextPart, Usage
from hermes_protocol.events import FileChange
from tests.support.live import Live, Peer, TestTool, live
from tests.support.middleware_talk import WRITE, answered, fact, items, kinds, tell

TEXT = {"type": "text", "text": "by rule"}


class Asked:
    """A provider that counts."""

    name = "test"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        yield TextDelta("by model")
        yield Reply(Message("assistant", (TextPart("by model"),)), "stop", Usage(7, 2))

    async def close(self) -> None:
        return None


def answering(answer: Any, on_error: Any = None) -> Registry:
    async def link(question: Question, _: Any) -> Question:
        return msgspec.structs.replace(question, answer=answer)

    registry = Registry()
    registry.use("beforeProviderTurn", link, owner="rules", on_error=on_error)
    return registry


@pytest.mark.parametrize("link", ["unchanged", "none", "throws"])
def test_without_an_answer_the_model_is_asked_and_nothing_else_differs(tmp_path: Path, link: str) -> None:
    """D1: no answer, None, or a throw that is forgiven: the events are those of no middleware at all."""

    async def silent(question: Question, _: Any) -> Question | None:
        if link == "throws":
            raise ValueError("no idea")
        return question if link == "unchanged" else None

    with_link = Registry()
    with_link.use("turn.answer", silent, owner="rules")
    seen: list[list[str]] = []

    async def story(daemon: Live, peer: Peer) -> None:
        await peer.say(await peer.session("/"), "go")
        seen.append([kind for kind in kinds(peer) if kind != "notice"])

    for number, registry in enumerate((with_link, Registry())):
        provider = Asked()
        tell(tmp_path / str(number), registry, story, provider=provider)
        assert len(provider.requests) == 1
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("hello", "answer: expected an object, got str"),
        (Answer((), "m"), "content: expected a list with at least one block"),
        ({"content": "text", "provenance": {"middleware": "m"}}, "content: expected a list"),
        ({"content": ["text"], "provenance": {"middleware": "m"}}, "content[0]: expected an object, got str"),
        ({"content": [{"type": "tool_call"}], "provenance": {"middleware": "m"}}, "content[0].type: expected one of"),
        ({"content": [TEXT, {"type": "text"}], "provenance": {"middleware": "m"}}, "content[1].text: expected a str"),
        ({"content": [{"type": "thinking", "text": 1}], "provenance": {"middleware": "m"}}, "content[0].text"),
    ],
)
def test_an_answer_is_made_of_blocks_of_the_known_types(answer: Any, words: str) -> None:
    """D2: an object, its content a list that is not empty, each block of a known type, text where it must be."""
    with pytest.raises(DeterministicTurnError) as error:
        message_of(answer)
    assert words in str(error.value)


def test_media_of_an_answer_become_words() -> None:
    """D2: image, audio, file, document and video are allowed; a history holds media of users only."""
    blocks = tuple({"type": kind, "name": "a.bin"} for kind in ("image", "audio", "file", "document", "video"))
    text = message_of(Answer((*blocks, {"type": "thinking", "text": "hm"}), "m")).text
    assert text == "[image a.bin][audio a.bin][file a.bin][document a.bin][video a.bin]"


@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 65, 3, None])
def test_who_answered_must_have_a_name(name: Any) -> None:
    """D3: 1-64 of letters, digits, `. _ : -`."""
    with pytest.raises(DeterministicTurnError, match=r"provenance\.middleware"):
        message_of({"content": [TEXT], "provenance": {"middleware": name}})


def test_only_the_name_of_the_provenance_is_kept() -> None:
    """D3: other keys are left out."""
    made = message_of({"content": [TEXT], "provenance": {"middleware": "a.b:c-1_", "secret": "x"}})
    assert msgspec.to_builtins(made.deterministic) == {"middleware": "a.b:c-1_"}


@pytest.mark.parametrize("on_error", [None, "event", "throw", "closed"])
def test_a_malformed_answer_fails_the_turn_whatever_the_policy_says(tmp_path: Path, on_error: Any) -> None:
    """D4: closed, with the code; no provider is asked."""
    provider = Asked()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        ended = (await peer.say(session, "go"))["data"]
        assert (ended["status"], ended["error"]["kind"]) == ("failed", "deterministic_turn")
        assert ended["error"]["data"]["code"] == "ERR_PRISM_DETERMINISTIC_TURN"
        assert await items(peer, session, "agentMessage") == []

    tell(tmp_path, answering(Answer((), "m"), on_error), story, provider=provider)
    assert provider.requests == []


def test_a_denied_answer_leaves_nothing(tmp_path: Path) -> None:
    """D5: `output` may deny it before anything is shown."""

    async def deny(text: str, _: Any) -> None:
        raise ValueError("not this")

    registry = answering(Answer((TEXT,), "m"))
    registry.use("output", deny, owner="guard", on_error="throw")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        ended = (await peer.say(session, "go"))["data"]
        assert (ended["status"], ended["error"]["kind"]) == ("failed", "middleware")
        assert "item.delta" not in kinds(peer)
        assert await items(peer, session, "agentMessage") == []

    tell(tmp_path, registry, story)


def test_an_answer_is_charged_before_it_is_shown(tmp_path: Path) -> None:
    """D5: agent.max_response_bytes comes before guardrails and events."""
    passed: list[str] = []

    async def look(text: str, _: Any) -> None:
        passed.append(text)

    registry = answering(Answer((TEXT,), "m"))
    registry.use("output", look, owner="guard")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        ended = (await peer.say(session, "go"))["data"]
        assert (ended["status"], ended["error"]["kind"]) == ("failed", "too_large")
        assert await items(peer, session, "agentMessage") == []

    tell(tmp_path, registry, story, config="agent: {max_response_bytes: 6}\n")
    assert passed == []


def test_an_interrupt_comes_before_the_answer(tmp_path: Path) -> None:
    """D5: the abort check stands behind the check of the answer."""
    reached = asyncio.Event()

    async def slow(question: Question, _: Any) -> Question:
        reached.set()
        await asyncio.Event().wait()
        return question

    registry = Registry()
    registry.use("turn.answer", slow, owner="rules")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        await peer.submit(session, "go")
        await reached.wait()
        await peer.request("hermes/turn/interrupt", {"sessionId": session})
        assert (await peer.event("turn.ended"))["data"]["status"] == "interrupted"
        assert await items(peer, session, "agentMessage") == []

    tell(tmp_path, registry, story)


def test_an_answer_is_shown_like_any_other_and_says_who_gave_it(tmp_path: Path) -> None:
    """D6: item, delta, completion, with the provenance; no model call is told."""
    provider = Asked()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        await peer.submit(session, "go")
        started = await peer.event("item.started")
        while started["data"]["item"]["type"] != "agentMessage":
            started = await peer.event("item.started")
        assert started["data"]["item"]["deterministic"] == {"middleware": "rules.1"}
        assert (await peer.event("item.delta"))["data"]["text"] == "by rule"
        await peer.event("turn.ended")
        measured = await fact(peer, "turn")
        assert (measured["rounds"], measured["deterministicRounds"]) == (0, 1)
        assert "model.call" not in [note["params"]["name"] for note in peer.notes]

    tell(tmp_path, answering(Answer((TEXT,), "rules.1")), story, provider=provider)


def test_an_answer_has_no_usage(tmp_path: Path) -> None:
    """D7: absent, not 0; the session's usage does not grow."""

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        ended = (await peer.say(session, "go"))["data"]
        assert "usage" not in ended
        got = await peer.request("hermes/session/get", {"sessionId": session})
        assert got["session"]["usage"] == {}

    tell(tmp_path, answering(Answer((TEXT,), "m")), story, provider=Asked())


def test_the_provenance_survives_a_restart(tmp_path: Path) -> None:
    """D8: in the message and in the item, read from the store."""

    async def story() -> None:
        async with live(str(tmp_path), middleware=answering(Answer((TEXT,), "m"))) as daemon:
            peer = await daemon.peer()
            session = await peer.session("/")
            await peer.say(session, "go")
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            [item] = await items(peer, session, "agentMessage")
            assert (item["text"], item["deterministic"]) == ("by rule", {"middleware": "m"})
            last = daemon.room.sessions.get(session).history[-1]
            assert last.deterministic is not None
            assert last.deterministic.middleware == "m"

    asyncio.run(story())


def test_the_end_counts_both_ways_of_answering(tmp_path: Path) -> None:
    """D9: turns {model, deterministic}; a round that is answered sends no request."""
    provider = Asked()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/")
        assert (await peer.say(session, "rule"))["data"]["turns"] == {"deterministic": 1}
        assert provider.requests == []
        assert (await peer.say(session, "model"))["data"]["turns"] == {"model": 1}

    async def link(question: Question, _: Any) -> Question | None:
        return msgspec.structs.replace(question, answer=Answer((TEXT,), "m")) if question.user_text == "rule" else None

    registry = Registry()
    registry.use("turn.answer", link, owner="rules")
    tell(tmp_path, registry, story, provider=provider)
    assert len(provider.requests) == 1


def test_the_question_is_what_the_user_said_last(tmp_path: Path) -> None:
    """D10: the latest user message of the assembled request, steering included, without what plugins added."""
    heard: list[tuple[int, str]] = []

    async def link(question: Question, _: Any) -> None:
        heard.append((question.round, question.user_text))

    async def add(turn: Any, _: Any) -> Any:
        return msgspec.structs.replace(turn, contexts=("the weather is fine",))

    registry = Registry()
    registry.use("turn.answer", link, owner="rules")
    registry.use("pre_llm_call", add, owner="weather")

    async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome("done")

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        submitted = await peer.submit(session, "go")
        opened = await peer.event("request.opened")
        block = [{"type": "text", "text": "and hurry"}]
        steer = {"sessionId": session, "turnId": submitted["turnId"], "input": block, "key": "s1"}
        await peer.request("hermes/turn/steer", steer)
        answer = {"requestId": opened["data"]["requestId"], "answer": {"optionId": "allow_session"}}
        await peer.request("hermes/request/answer", answer)
        await peer.event("turn.ended")

    tell(tmp_path, registry, story, tools=[TestTool("write", write)])
    assert heard == [(1, "go"), (2, "and hurry"), (3, "and hurry")]


def test_an_answer_ends_the_loop_and_pre_verify_may_still_act(tmp_path: Path) -> None:
    """D11: it has no calls, so the turn settles; a policy may send it back all the same."""
    nudged: list[int] = []

    async def link(question: Question, _: Any) -> Question | None:
        return msgspec.structs.replace(question, answer=Answer((TEXT,), "m")) if question.round > 1 else None

    def nudge(attempt: int, **_: Any) -> Any:
        nudged.append(attempt)
        return {"action": "continue", "message": "look again"} if attempt == 0 else None

    registry = Registry()
    registry.use("turn.answer", link, owner="rules")
    registry.use("pre_verify", nudge, owner="verify", shape="hook")

    async def write(args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        change = FileChange(item_id="", status="completed", created_at="", path="a.txt", kind="modified")
        return ToolOutcome("done", changes=(change,))

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session("/", model=WRITE)
        await peer.submit(session, "go")
        await answered(peer)
        ended = (await peer.event("turn.ended"))["data"]
        assert (ended["status"], ended["turns"]) == ("completed", {"model": 1, "deterministic": 2})

    tell(tmp_path, registry, story, tools=[TestTool("write", write)])
    assert nudged == [0, 1]
