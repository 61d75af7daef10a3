"""The byte pump."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from hermes_local.connection import Connection
from hermes_local.pump import pump
from tests.support.local_daemon import Frame, LocalDaemon, Peer


def run(path: Path, answer: object, given: bytes) -> tuple[bool, bytes]:
    """Pump `given` through a daemon to the end; what it returned and what came out."""
    reading, into = os.pipe()
    out, writing = os.pipe()
    collected: list[bytes] = []

    def feed() -> None:
        with open(into, "wb") as pipe:
            pipe.write(given)

    def collect() -> None:
        with open(out, "rb") as pipe:
            collected.append(pipe.read())

    threads = [threading.Thread(target=feed), threading.Thread(target=collect)]
    with LocalDaemon(path, answer), Connection.open(str(path)) as connection:  # type: ignore[arg-type]
        for thread in threads:
            thread.start()
        said = pump(reading, writing, connection)
        os.close(writing)
        os.close(reading)
        for thread in threads:
            thread.join(10)
    return said, collected[0]


def echo(peer: Peer, frame: Frame) -> None:
    peer.result(frame, frame["params"])


def test_bytes_go_both_ways_and_the_last_answers_are_not_lost(tmp_path: Path) -> None:
    big = "x" * 3_000_000
    frame = f'{{"id":1,"method":"a","params":"{big}"}}\n'.encode()
    said, out = run(tmp_path / "s", echo, frame + b'{"id":2,"method":"b","params":"\\"shutdown\\""}\n')
    assert out.count(b"\n") == 2
    assert big.encode() in out
    assert not said


def test_shutdown_is_noticed_wherever_it_is_cut(tmp_path: Path) -> None:
    said, _ = run(tmp_path / "s", echo, b'{"id":1,"method":"shutdown","params":1}\n')
    assert said


def test_the_daemons_end_ends_the_pump_while_input_is_open(tmp_path: Path) -> None:
    reading, into = os.pipe()
    out, writing = os.pipe()
    os.write(into, b'{"id":1,"method":"a"}\n')
    with LocalDaemon(tmp_path / "s", lambda peer, frame: peer.hang_up()), Connection.open(str(tmp_path / "s")) as one:
        assert pump(reading, writing, one) is False
    for fd in (reading, into, out, writing):
        os.close(fd)


def test_a_reader_that_has_gone_ends_the_pump(tmp_path: Path) -> None:
    reading, into = os.pipe()
    out, writing = os.pipe()
    os.close(out)
    os.write(into, b'{"id":1,"method":"a","params":1}\n')
    with LocalDaemon(tmp_path / "s", echo), Connection.open(str(tmp_path / "s")) as one:
        assert pump(reading, writing, one) is False
    for fd in (reading, into, writing):
        os.close(fd)
