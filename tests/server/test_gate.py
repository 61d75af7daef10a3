"""What is experimental needs an opt-in, what is deprecated is told once: on a real connection, with the test's rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import pytest

from hermes_daemon.engine.emitted import Draft
from hermes_protocol.content import Wire
from hermes_protocol.events import EventData
from hermes_protocol.marks import deprecated, experimental
from hermes_protocol.methods import Empty, Method
from tests.support.live import Live, Peer, live


class Inner(Wire, frozen=True):
    trial: Annotated[str, experimental("drafts")] = ""


class TrialParams(Wire, frozen=True):
    plain: str = ""
    trial: Annotated[int | None, experimental("drafts")] = None
    older: Annotated[str, deprecated("use `plain`")] = ""
    inner: tuple[Inner, ...] = ()


class DraftNews(EventData, frozen=True):
    KIND: ClassVar[str] = "draft.news"
    FEATURE: ClassVar[str] = "drafts"
    text: str = ""


async def accept(connection: Any, params: Any) -> Empty:
    return Empty()


TRIALS: Mapping[str, Any] = {
    "hermes/trial/new": (Method(TrialParams, Empty, experimental="drafts"), accept),
    "hermes/trial/fields": (Method(TrialParams, Empty), accept),
    "hermes/trial/old": (Method(TrialParams, Empty, deprecated="use hermes/trial/fields"), accept),
}


def opted(*features: str) -> dict[str, Any]:
    return {"capabilities": {"experimental": list(features), "maxLatencyMs": 0}}


def told(peer: Peer) -> list[str]:
    return [note["params"]["message"] for note in peer.notes if note["method"] == "window/logMessage"]


def run(home: Path, story: Any) -> None:
    async def started() -> None:
        async with live(str(home), trials=TRIALS) as daemon:
            await story(daemon)

    asyncio.run(started())


@pytest.mark.parametrize("params", [{}, {"plain": 5}], ids=["params that fit", "params that do not"])
def test_an_experimental_method_is_refused_by_its_feature_until_the_client_asked_for_it(
    tmp_path: Path, params: dict[str, Any]
) -> None:
    async def story(daemon: Live) -> None:
        error = await (await daemon.peer("plain", **opted("others"))).refused("hermes/trial/new", params)
        assert (error["code"], error["data"]["kind"]) == (-32049, "experimental_required")
        assert error["data"]["feature"] == "drafts"
        assert await (await daemon.peer("brave", **opted("drafts"))).request("hermes/trial/new") == {}

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("params", "path"),
    [({"trial": 1}, "$.trial"), ({"inner": [{}, {"trial": "x"}]}, "$.inner[...].trial")],
)
def test_an_experimental_field_is_refused_with_its_path_and_free_to_be_left_out(
    tmp_path: Path, params: dict[str, Any], path: str
) -> None:
    async def story(daemon: Live) -> None:
        plain = await daemon.peer("plain", **opted())
        error = await plain.refused("hermes/trial/fields", params)
        assert (error["code"], error["data"]["feature"]) == (-32049, "drafts")
        assert path in error["message"]
        assert await plain.request("hermes/trial/fields", {"plain": "x", "trial": None, "inner": [{}]}) == {}
        assert await (await daemon.peer("brave", **opted("drafts"))).request("hermes/trial/fields", params) == {}

    run(tmp_path, story)


def test_a_deprecated_method_and_field_are_announced_once_per_connection_and_served(tmp_path: Path) -> None:
    async def story(daemon: Live) -> None:
        first, second = await daemon.peer("first"), await daemon.peer("second")
        for peer in (first, second):
            for _ in range(3):
                assert await peer.request("hermes/trial/old", {"older": "x"}) == {}
                assert await peer.request("hermes/trial/fields", {"plain": "x"}) == {}
            method, field = told(peer)
            assert method.startswith("hermes/trial/old is deprecated")
            assert method.endswith("use hermes/trial/fields")
            assert field.startswith("$.older of hermes/trial/old is deprecated")
            assert field.endswith("use `plain`")

    run(tmp_path, story)


def test_who_uses_nothing_deprecated_is_told_nothing(tmp_path: Path) -> None:
    async def story(daemon: Live) -> None:
        peer = await daemon.peer()
        await peer.request("hermes/trial/fields", {"plain": "x"})
        await peer.say(await peer.session(), "hello")
        assert told(peer) == []

    run(tmp_path, story)


def test_an_event_of_an_experimental_kind_goes_only_to_those_that_asked_and_both_chains_hold(tmp_path: Path) -> None:
    async def story(daemon: Live) -> None:
        plain, brave = await daemon.peer("plain", **opted()), await daemon.peer("brave", **opted("drafts"))
        session = await plain.session()
        last = (await brave.request("hermes/session/subscribe", {"sessionId": session}))["seq"]
        feed = daemon.room.sessions.get(session).feed
        await feed.commit([Draft(DraftNews("news"))])
        await plain.say(session, "hello")
        news = await brave.event("draft.news")
        assert news["data"] == {"text": "news"}
        await brave.event("turn.ended")
        kinds = [frame["params"]["kind"] for frame in plain.order if frame.get("method") == "hermes/event"]
        assert "draft.news" not in kinds
        assert "turn.ended" in kinds
        for peer in (plain, brave):
            chain = last
            for frame in peer.order:
                if frame.get("method") == "hermes/event":
                    assert frame["params"]["prev"] == chain
                    chain = frame["params"]["seq"]

    run(tmp_path, story)


def test_marks_are_found_at_any_depth_and_cost_nothing_where_there_are_none() -> None:
    from hermes_protocol.marks import _look, used
    from hermes_protocol.methods import METHODS

    params = msgspec.json.decode(b'{"trial": 3, "inner": [{"trial": "x"}, {}]}', type=TrialParams)
    assert [mark.path for mark in used(TrialParams, params)] == ["$.trial", "$.inner[...].trial"]
    assert [name for name, row in METHODS.items() if _look(row.params, "$", ()) is not None] == []
