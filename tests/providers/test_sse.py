from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.providers.sse import SSEReader
from hermes_daemon.providers.wire import Event, TooLong
from tests.support.shared_data import case_bytes


def read(*pieces: bytes) -> list[Event]:
    reader = SSEReader()
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.finish()


def test_every_line_end_is_read_alike() -> None:
    for end in (b"\n", b"\r", b"\r\n"):
        body = b"data: a" + end + b"data: b" + end + end + b"event: x" + end + b"data: c" + end + end
        assert read(body) == [Event("a\nb"), Event("c", "x")]


def test_mixed_line_ends_and_a_cut_inside_crlf() -> None:
    assert read(b"data: a\r", b"\n\r", b"\ndata: b\n\r") == [Event("a"), Event("b")]


def test_a_bom_at_the_start_is_skipped_also_when_cut() -> None:
    assert read(b"\xef", b"\xbb", b"\xbfdata: a\n\n") == [Event("a")]
    assert read(b"data: \xef\xbb\xbfa\n\n") == [Event("\ufeffa")]


def test_one_space_after_the_colon_is_taken_and_no_more() -> None:
    assert read(b"data:a\n\ndata: a\n\ndata:  a\n\n") == [Event("a"), Event("a"), Event(" a")]


def test_fields_without_a_colon_and_empty_data_lines() -> None:
    assert read(b"data\n\n") == [Event("")]
    assert read(b"data\ndata\n\n") == [Event("\n")]
    assert read(b"other: x\nretry\n\n") == []


def test_a_name_without_data_gives_no_event_and_does_not_stick() -> None:
    assert read(b"event: ping\n\ndata: a\n\n") == [Event("a")]


def test_an_open_event_is_given_when_the_stream_ends() -> None:
    assert read(b"data: a\n\ndata: b") == [Event("a"), Event("b")]
    assert read(b"data: a\n") == [Event("a")]
    assert read(b"") == []
    assert read(b"\xef\xbb") == []


def test_a_character_cut_by_the_network_is_whole_again() -> None:
    assert read(b"data: \xf0\x9f", b"\x8d\xb8\n\n") == [Event("\U0001f378")]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert read(b"data: a\xffb\n\n") == [Event("a\ufffdb")]


def test_an_endless_line_or_event_is_refused() -> None:
    reader = SSEReader(max_bytes=10)
    reader.feed(b"data:")
    reader.feed(b"data:")
    with pytest.raises(TooLong, match="10 bytes"):
        reader.feed(b"data:")
    with pytest.raises(TooLong):
        SSEReader(max_bytes=10).feed(b"data: 123456\ndata: 123456\n\n")


lines = st.lists(
    st.sampled_from(
        [b"data: x", b"data:y", b"data", b": note", b":", b"event: e", b"", b"", b"id: 4", b"data: \xf0\x9f\x8d\xb8"]
    ),
    max_size=14,
)


@given(lines, st.lists(st.sampled_from([b"\n", b"\r", b"\r\n"]), min_size=14, max_size=14), st.data())
def test_cutting_the_bytes_anywhere_changes_nothing(parts: list[bytes], ends: list[bytes], data: st.DataObject) -> None:
    body = b"".join(line + end for line, end in zip(parts, ends, strict=False))
    if data.draw(st.booleans()):
        body = b"\xef\xbb\xbf" + body
    whole = read(body)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert read(*pieces) == whole
    assert read(*(body[i : i + 1] for i in range(len(body)))) == whole


def test_case_comments_between_two_data_lines_do_not_end_the_event() -> None:
    events = read(case_bytes("stream", "stream-keepalive-comment", "body.sse"))
    assert len(events) == 3
    assert events[0].data == '{"choices":[{"index":0,\n"delta":{"content":"hi"}}]}'


def test_case_no_space_and_bare_cr() -> None:
    events = read(case_bytes("stream", "stream-data-no-space", "body.sse"))
    assert events[-1].data == "[DONE]"
    assert len(events) == 3
