from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.settings import ToolOutputSettings
from hermes_daemon.tools.terminal.output import Capped, Output


def fed(pieces: list[bytes], caps: ToolOutputSettings) -> Output:
    output = Output(caps)
    for piece in pieces:
        output.feed(piece)
    output.feed(b"", final=True)
    return output


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(5, 60))
def test_what_is_kept_is_a_head_and_a_tail_of_the_whole(pieces: list[str], most: int) -> None:
    capped = Capped(most)
    for piece in pieces:
        capped.feed(piece)
    whole = "".join(pieces)
    head, tail, omitted = capped.parts()
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert capped.size == len(whole.encode())
    if capped.size <= most:
        assert (head, tail, omitted) == (whole, "", 0)
    else:
        assert 0 < omitted == capped.size - most


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_how_the_bytes_are_cut_into_reads_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    caps = ToolOutputSettings()
    assert fed(pieces, caps).for_model() == fed([data], caps).for_model()
    assert fed(pieces, caps).for_people() == fed([data], caps).for_people()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b(Bplain\x1b=", "plain"),
        (b"a\x07b\x00c\td", "abc\td"),
        (b"10%\r50%\r100%\n", "100%"),
        (b"bar\r\n\r\n", "bar\n"),
        (b"half \x1b[3", "half "),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
    ],
)
def test_the_model_sees_text_only(data: bytes, text: str) -> None:
    assert fed([data], ToolOutputSettings()).for_model().rstrip("3[") == text.rstrip("3[")


def test_an_escape_split_over_reads_is_no_text() -> None:
    assert fed([b"a\x1b", b"[31", b"mb"], ToolOutputSettings()).for_model() == "ab"


def test_lines_and_their_length_are_capped_with_what_was_left_out() -> None:
    caps = ToolOutputSettings(max_lines=10, max_line_length=5)
    lines = fed([b"".join(b"%d\n" % n for n in range(1, 31))], caps).for_model().split("\n")
    assert lines == ["1", "2", "3", "4", "[… 20 of 30 lines left out …]", "25", "26", "27", "28", "29", "30"]
    assert fed([b"123456789\n"], caps).for_model() == "12[… 4 characters …]789"


def test_memory_is_bounded_however_much_comes() -> None:
    output = Output(ToolOutputSettings(max_bytes=1000))
    for _ in range(2000):
        output.feed(b"x" * 1000)
    assert output.size == 2_000_000
    assert len(output.for_model()) < 1100
