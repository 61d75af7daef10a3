"""For atheris: any bytes through framing and envelope. python fuzz_wire.py [libFuzzer's options] CORPUS

What must hold: no exception; memory bounded by the limit; however the bytes are cut, the same frames come out; every
frame gets a verdict, and every fault an error of the table.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "protocol"))

with atheris.instrument_imports(include=["hermes_protocol"]):
    from hermes_protocol import envelope
    from hermes_protocol.errors import CODES
    from hermes_protocol.framing import Broken, Decoder, Framing, Oversized

LIMIT = 2048
HEADER_LIMIT = 4096


def one_input(data: bytes) -> None:
    """The first byte says how the rest is cut."""
    step, wire = (data[0] % 64) + 1 if data else 1, data[1:]
    whole, cut = Decoder(LIMIT), Decoder(LIMIT)
    frames = whole.feed(wire)
    pieces = [frame for at in range(0, len(wire), step) for frame in cut.feed(wire[at : at + step])]
    assert [_told(frame) for frame in frames] == [_told(frame) for frame in pieces], (frames, pieces)
    assert whole.framing is cut.framing
    if cut.framing is not Framing.HTTP:  # which another room takes over at once
        assert cut.pending <= LIMIT + HEADER_LIMIT + step
    for frame in frames:
        if isinstance(frame, Oversized):
            envelope.scan_id(frame.head)
        elif isinstance(frame, bytes):
            _judged(frame)


def _told(frame: object) -> object:
    """What is the same however the bytes were cut: an oversized message's head may be longer or shorter."""
    return type(frame) if isinstance(frame, Oversized | Broken) else frame


def _judged(body: bytes) -> None:
    message = envelope.decode(body)
    for entry in message.entries if isinstance(message, envelope.Batch) else [message]:
        if isinstance(entry, envelope.Fault):
            assert entry.error.code == CODES[entry.error.data["kind"]]
            told = envelope.decode(envelope.error(entry.id, entry.error))
            assert told == envelope.Answer(entry.id, None, entry.error)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
