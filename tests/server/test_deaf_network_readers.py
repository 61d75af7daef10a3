"""A client that never reads costs its limit through a WebSocket and through TLS too, in our queue and in the
transport's, and is answered when it reads at last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.certificates import Certificates
from tests.support.live import live
from tests.support.loops import on_every_loop, run
from tests.support.network import network

HARD = 2_097_152
CONFIG = f"daemon: {{outbox_soft_bytes: 262144, outbox_hard_bytes: {HARD}}}\n"
IN_TRANSPORT = 1_048_576
"""What the transport may hold: its high-water mark, and one write above it of joined frames."""


@on_every_loop
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("websocket", [False, True])
def test_who_never_reads_is_bounded_and_told_when_it_does(
    tmp_path: Path, tls: bool, websocket: bool, loop: str
) -> None:
    async def story() -> None:
        certificates = Certificates(tmp_path / "certificates")
        listen = certificates.listen() if tls else {}
        context = certificates.trusted() if tls else None
        async with live(str(tmp_path), config=CONFIG) as daemon, network(daemon, context, **listen) as net:
            owner = await daemon.peer("owner")
            session = await owner.session(str(tmp_path), model="scripted/words?n=1&context=900000000")
            deaf = await net.websocket(net.bearer()) if websocket else await net.peer("deaf", initialize=False)
            hello = {"client": {"id": "deaf", "name": "deaf"}, "auth": {"token": net.token}, "capabilities": {}}
            await deaf.request("initialize", {"hermes": {"protocolVersions": ["1.0"], **hello}})
            await deaf.request("hermes/session/subscribe", {"sessionId": session})
            deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]
            [wire] = [each.wire for each in daemon.daemon.connections.values() if each.by().name == "deaf"]
            for number in range(150):
                await owner.say(session, f"{number} " + "x" * 200_000)
                owner.order.clear()
                owner.events.clear()
                assert wire.outbox.bytes <= 2 * HARD
                assert wire._transport is not None
                assert wire._transport.get_write_buffer_size() <= IN_TRANSPORT
            assert wire.outbox.desyncs == 1
            deaf.reader._transport.resume_reading()  # type: ignore[attr-defined]
            answer = await deaf.request("hermes/daemon/ping", {"echo": "there"})
            assert "there" in str(answer)

    run(story(), loop)
