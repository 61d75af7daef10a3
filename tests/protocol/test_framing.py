"""Bytes become messages, however they are cut and whatever is wrong with them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_protocol.framing import Broken, Decoder, Frame, Framing, Oversized, encode

BODIES = st.lists(
    st.binary(min_size=1, max_size=60).map(lambda raw: b'{"x":"' + raw.hex().encode() + b'"}'), max_size=8
)


def feed_cut(decoder: Decoder, data: bytes, cuts: list[int]) -> list[Frame]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    frames: list[Frame] = []
    for start, end in itertools.pairwise(edges):
        frames += decoder.feed(data[start:end])
    return frames


@given(BODIES, st.lists(st.integers(min_value=0)), st.sampled_from([Framing.NEWLINE, Framing.HEADERS]))
def test_messages_come_out_whole_wherever_the_network_cuts(
    bodies: list[bytes], cuts: list[int], framing: Framing
) -> None:
    wire = b"".join(encode(framing, body) for body in bodies)
    decoder = Decoder(limit=1000)
    assert feed_cut(decoder, wire, cuts) == bodies
    assert decoder.pending == 0


@given(st.lists(st.integers(min_value=0)), st.sampled_from([Framing.NEWLINE, Framing.HEADERS]))
def test_a_too_long_message_is_skipped_and_told_and_the_next_one_arrives(cuts: list[int], framing: Framing) -> None:
    long = b'{"id":7,"x":"' + b"a" * 5000 + b'"}'
    wire = b"".join(encode(framing, body) for body in [b"{}", long, b'{"y":1}'])
    before, skipped, after = feed_cut(Decoder(limit=2000), wire, cuts)
    assert (before, after) == (b"{}", b'{"y":1}')
    assert isinstance(skipped, Oversized)
    assert skipped.limit == 2000
    assert skipped.head.startswith(b'{"id":7')


def test_an_endless_line_costs_no_memory() -> None:
    decoder = Decoder(limit=1000, framing=Framing.NEWLINE)
    for _ in range(100):
        assert decoder.feed(b"x" * 1000) == []
        assert decoder.pending <= 2000


@pytest.mark.parametrize("lead", [b"{}\n", b"[]\n", b"\n \r\n{}\n"])
def test_a_brace_or_bracket_means_newline_framing(lead: bytes) -> None:
    decoder = Decoder(limit=100)
    assert len(decoder.feed(lead)) == 1
    assert decoder.framing is Framing.NEWLINE


def test_blank_lines_are_no_messages() -> None:
    assert Decoder(limit=100).feed(b"{}\n\n \r\n{}\n") == [b"{}", b"{}"]


def test_header_names_are_case_insensitive_and_unknown_ones_are_skipped() -> None:
    wire = b"content-length: 2\r\nContent-Type: application/json\r\n\r\n{}CONTENT-LENGTH:2\r\n\r\n[]"
    decoder = Decoder(limit=100)
    assert decoder.feed(wire) == [b"{}", b"[]"]
    assert decoder.framing is Framing.HEADERS


@pytest.mark.parametrize(
    "wire",
    [
        b"Content-Type: x\r\n\r\n{}",
        b"Content-Length: -1\r\n\r\n{}",
        b"Content-Length: 1x\r\n\r\n{}",
        b"Content-Length: \xb2\r\n\r\n{}",
        b"Content-Length: " + b"9" * 400 + b"\r\n\r\n",
        b"Cnonsense\r\n\r\n{}",
        b"C" + b"x" * 5000,
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    ],
)
def test_a_broken_header_block_ends_the_stream(wire: bytes) -> None:
    decoder = Decoder(limit=100)
    frames = decoder.feed(wire)
    assert isinstance(frames[-1], Broken)
    assert decoder.feed(b"Content-Length: 2\r\n\r\n{}") == []


def test_any_other_first_byte_is_no_protocol_of_ours() -> None:
    assert isinstance(Decoder(limit=100).feed(b"\x16\x03\x01")[0], Broken)


def test_http_is_left_for_another_room() -> None:
    decoder = Decoder(limit=100)
    assert decoder.feed(b"GET / HTTP/1.1\r\n") == []
    assert decoder.framing is Framing.HTTP


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0), max_size=5))
def test_any_bytes_are_survived(data: bytes, cuts: list[int]) -> None:
    feed_cut(Decoder(limit=50), data, cuts)
