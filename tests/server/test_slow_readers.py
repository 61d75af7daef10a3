"""A client that does not read (protocol section 9) costs a bounded sum of memory and nobody else anything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.server.daemon import rss_bytes
from hermes_protocol.events import UserMessage
from tests.support.folding import Follower
from tests.support.live import Peer, live
from tests.support.loops import SkippingLoop, on_every_loop, run

MIB = 1_048_576
SHORT: dict[str, Any] = {"capabilities": {"maxLatencyMs": 0, "maxFrameBytes": 65_536}}
SMALL = "daemon:\n  outbox_soft_bytes: 40000\n  outbox_hard_bytes: 400000\n"


async def rows(peer: Peer) -> dict[str, dict[str, Any]]:
    status = await peer.request("hermes/daemon/status")
    return {row["name"]: row for row in status["connections"]}


@on_every_loop
def test_five_stalled_readers_cost_at_most_their_limit_each_and_slow_nobody(tmp_path: Path, loop: str) -> None:
    """Acceptance check 9: 5 stalled readers and 150 messages of 200 kB."""

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            owner = await daemon.peer("owner")
            session = await owner.session(str(tmp_path), model="scripted/words?n=1&context=900000000")
            stalled = [await daemon.peer(f"stalled{number}", small_buffer=True) for number in range(5)]
            for peer in stalled:
                await peer.request("hermes/session/subscribe", {"sessionId": session})
            before = rss_bytes()
            for number in range(150):
                await owner.say(session, f"{number} " + "x" * 200_000)
                owner.order.clear()
                owner.events.clear()
            queued = [row["queueBytes"] for name, row in (await rows(owner)).items() if name.startswith("stalled")]
            assert all(size <= 8 * MIB for size in queued)
            assert rss_bytes() - before < 5 * 8 * MIB + 200_000 * 150 * 3  # what this test's own peer and history hold
            for peer in stalled:
                assert (await peer.note("hermes/desync"))["reason"] == "lag"

    run(story(), loop)


@on_every_loop
def test_a_desynced_reader_subscribes_again_and_sees_everything(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config=SMALL) as daemon:
            owner, slow = await daemon.peer("owner"), await daemon.peer("slow", small_buffer=True, **SHORT)
            session = await owner.session(str(tmp_path), model="scripted/words?n=1&context=900000000")
            follower = Follower(slow, session)
            await follower.subscribe()
            sizes = 0
            for number in range(40):
                await owner.say(session, f"{number} " + "x" * 20_000)
                sizes = max(sizes, (await rows(owner))["slow"]["queueBytes"])
            assert sizes > 100_000
            desync = await slow.note("hermes/desync")
            follower.catch_up()
            assert desync["lastSeq"] == follower.last  # what it was sent, not what was meant for it
            result = await follower.subscribe(since=(follower.epoch, desync["lastSeq"]))
            head = (await owner.request("hermes/session/get", {"sessionId": session}))["head"]
            assert result["head"] == head
            view = await follower.until(head)
            assert (
                result["mode"] == "replay"
            )  # more than it may have queued: it is read from the journal as it takes it
            said = [item.text.split()[0] for item in view.items if isinstance(item, UserMessage)]
            assert said == [str(number) for number in range(40)]
            await owner.say(session, "and live again")
            await slow.event("turn.ended")

    run(story(), loop)


def test_answers_reach_a_reader_that_is_behind(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config=SMALL) as daemon:
            owner, slow = await daemon.peer("owner"), await daemon.peer("slow", small_buffer=True, **SHORT)
            session = await owner.session(str(tmp_path), model="scripted/words?n=1&context=900000000")
            await slow.request("hermes/session/subscribe", {"sessionId": session})
            for number in range(40):
                await owner.say(session, f"{number} " + "x" * 20_000)
            calls = [slow.call("hermes/daemon/ping", {"echo": number}) for number in range(50)]
            calls.append(slow.call("hermes/no/such"))
            for number, call in enumerate(calls[:-1]):
                assert (await slow.answer(call))["result"]["echo"] == number
            assert (await slow.answer(calls[-1]))["error"]["code"] == -32601

    run(story())


def test_a_slow_reader_gets_whole_items_and_is_told_so_and_deltas_again_later(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config=SMALL) as daemon:
            owner, slow = await daemon.peer("owner"), await daemon.peer("slow", small_buffer=True, **SHORT)
            session = await owner.session(str(tmp_path), model="scripted/words?n=1&context=900000000")
            follower = Follower(slow, session)
            await follower.subscribe()
            while (await rows(owner))["slow"]["queueBytes"] < 200_000:
                await owner.say(session, "x" * 10_000)
            assert (await slow.note("hermes/lag"))["detail"] == "final"
            assert (await slow.note("hermes/lag"))["detail"] == "full"
            await owner.say(session, "small")
            head = (await owner.request("hermes/session/get", {"sessionId": session}))["head"]
            await follower.until(head)
            assert follower.kinds[-1] == "turn.ended"
            assert "item.delta" in follower.kinds[-8:]
            assert not [note for note in slow.notes if note["method"] == "hermes/desync"]

    run(story())


# --- a reader that is stuck ---


@pytest.mark.parametrize("reads", [False, True])
def test_a_reader_that_takes_nothing_for_30_s_is_closed_and_a_slow_one_is_not(tmp_path: Path, reads: bool) -> None:
    async def story(loop: SkippingLoop) -> None:
        async with live(str(tmp_path)) as daemon:
            owner, slow = await daemon.peer("owner"), await daemon.peer("slow", small_buffer=True)
            session = await owner.session(str(tmp_path), model="scripted/words?n=1&context=900000000")
            await slow.request("hermes/session/subscribe", {"sessionId": session})
            while not (await rows(owner))["slow"]["queueBytes"]:
                await owner.say(session, "x" * 200_000)
            for _ in range(5):
                loop.skip(20)
                if reads:
                    await slow.reader.readexactly(400_000)
                    await owner.say(session, "x" * 200_000)
                await owner.request("hermes/daemon/ping")
            names = set(await rows(owner))
            assert names == ({"owner", "slow"} if reads else {"owner"})
            assert (await owner.say(session, "on"))["data"]["status"] == "completed"

    loop = SkippingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story(loop))
