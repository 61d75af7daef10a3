"""Somebody opens connections over the network and says nothing: those who are known are served all the same."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

from hermes_daemon.server.wire import MOST_UNKNOWN
from tests.support.daemon_process import running_daemon
from tests.support.live import live
from tests.support.loops import on_every_loop, run
from tests.support.network import network
from tests.support.peer import Peer

CONFIG = "listen: {tcp: ['127.0.0.1:0']}\ndaemon: {idle_exit_s: 0}\n"
FILES = 300


def test_a_flood_of_silent_connections_takes_the_files_of_nobody(tmp_path: Path) -> None:
    hello = {"protocolVersions": ["1.0"], "client": {"id": "me"}}
    with running_daemon(tmp_path, CONFIG) as daemon:
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        peer = Peer(daemon.socket_path)
        peer.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"hermes": hello}})
        assert "result" in peer.receive()
        peer.send({"jsonrpc": "2.0", "id": 2, "method": "hermes/daemon/status", "params": {}})
        url = next(each for each in peer.receive()["result"]["endpoints"] if each.startswith("tcp://"))
        host, _, port = url.removeprefix("tcp://").rpartition(":")
        flood: list[socket.socket] = []
        for number in range(2 * FILES):
            flood.append(socket.create_connection((host, int(port)), timeout=20))
            if number % 20 == 0:  # in step with what the daemon accepts
                peer.send({"jsonrpc": "2.0", "id": 10 + number, "method": "hermes/daemon/ping", "params": {}})
                assert peer.receive()["id"] == 10 + number
        another = Peer(daemon.socket_path)
        another.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"hermes": hello}})
        assert "result" in another.receive()
        another.send({"jsonrpc": "2.0", "id": 2, "method": "hermes/session/create", "params": {"cwd": "/"}})
        assert "result" in another.receive()
        for each in flood:
            each.close()
        peer.close()
        another.close()


@on_every_loop
def test_who_said_the_token_stays_when_the_oldest_silent_ones_go(tmp_path: Path, loop: str) -> None:
    async def story() -> None:
        async with live(str(tmp_path)) as daemon, network(daemon) as there:
            known = await there.peer("known")
            oldest, _ = await there.open()
            silent = [await there.open() for _ in range(MOST_UNKNOWN)]
            assert await oldest.read() == b""
            assert await known.request("hermes/daemon/ping", {"echo": 1})
            assert (await there.peer("late")).order
            assert len(daemon.daemon.unknown) == MOST_UNKNOWN - 1
            assert len(silent) == MOST_UNKNOWN

    run(story(), loop)
