from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.providers.ndjson import LineReader
from hermes_daemon.providers.wire import TooLong

BODY = "one\n\n  \r\ntwo ü\r\nthree".encode()


@given(st.lists(st.integers(0, len(BODY)), max_size=6))
def test_lines_come_whole_however_they_are_cut(cuts: list[int]) -> None:
    reader, got, at = LineReader(), [], 0
    for cut in [*sorted(cuts), len(BODY)]:
        got += reader.feed(BODY[at:cut])
        at = cut
    got += reader.finish()
    assert [event.data for event in got] == ["one", "two ü", "three"]


def test_a_line_without_end_is_bounded() -> None:
    reader = LineReader(max_bytes=10)
    reader.feed(b"12345678")
    with pytest.raises(TooLong, match="10 bytes"):
        reader.feed(b"90123")
    with pytest.raises(TooLong):
        LineReader(max_bytes=3).feed(b"1234\n")
