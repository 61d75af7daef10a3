"""The example plugins of answers and observers in a whole daemon, with scripted models."""

from __future__ import annotations

from pathlib import Path

from hermes_daemon.core.ports import ModelInfo
from tests.docs.test_example_plugins_live import Recorder, run, terminal
from tests.support.live import Live, Peer


def test_a_known_question_sends_no_request(tmp_path: Path) -> None:
    provider = Recorder()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session(str(tmp_path))
        ended = await peer.say(session, "When is the office open?")
        assert ended["data"]["status"] == "completed"
        items = (await peer.request("hermes/session/items", {"sessionId": session}))["items"]
        [message] = [item for item in items if item["type"] == "agentMessage"]
        assert message["text"] == "From nine to five."
        assert message["deterministic"]["middleware"] == "office-hours"
        assert provider.requests == []
        await peer.say(session, "Why?")
        assert len(provider.requests) == 1

    run(tmp_path, ["office-hours"], story, provider=provider, info=ModelInfo("test/model", "model", "test"))


def test_answers_are_quieted_before_they_are_stored(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session(str(tmp_path))
        await peer.say(session, "hello")
        items = (await peer.request("hermes/session/items", {"sessionId": session}))["items"]
        assert [item["text"] for item in items if item["type"] == "agentMessage"] == ["Fine. Really."]

    run(tmp_path, ["quiet-output"], story, provider=Recorder(), info=ModelInfo("test/model", "model", "test"))


def test_calls_are_counted_over_sessions(tmp_path: Path) -> None:
    async def story(daemon: Live, peer: Peer) -> None:
        for _ in range(2):
            session = await peer.session(str(tmp_path), model='scripted/tool?name=terminal&args={"command":"ls"}')
            await peer.say(session, "go")
        told = await peer.request("hermes/command/run", {"name": "tool-counts", "kind": "cli"})
        assert told == {"text": "terminal/ok 2"}

    run(tmp_path, ["count-tools"], story, tools=[terminal([])])


def test_what_a_provider_is_sent_is_tagged(tmp_path: Path) -> None:
    provider = Recorder()

    async def story(daemon: Live, peer: Peer) -> None:
        session = await peer.session(str(tmp_path))
        await peer.say(session, "hello")
        assert provider.requests[0].extra_body == {"metadata": {"tag": "shop", "session": session}}

    run(tmp_path, ["tag-requests"], story, settings={"tag-requests": {"tag": "shop"}}, provider=provider,
        info=ModelInfo("test/model", "model", "test"))  # fmt: skip
