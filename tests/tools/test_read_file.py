import codecs
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.settings import Settings, ToolOutputSettings
from hermes_daemon.tools.text_files import detect
from tests.support.shared_data import case
from tests.support.tool_context import Bench


def read(folder: Path, name: str, **more: int) -> str:
    return Bench(folder).run("read_file", path=name, **more).text


def test_lines_carry_their_numbers_and_the_end_tells_the_total(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n\n  three\n")
    assert read(tmp_path, "a") == "1|one\n2|\n3|  three\n[total_lines 3, file_size 13]"


@pytest.mark.parametrize(("content", "total"), [("a\nb\nc", 3), ("a\nb\nc\n", 3), ("a", 1), ("\n\n", 2)])
def test_a_last_line_without_its_end_counts(content: str, total: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(content)
    assert f"total_lines {total}," in read(tmp_path, "a")


def test_a_page_names_its_lines_and_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"l{n}\n" for n in range(1, 11)))
    assert read(tmp_path, "a", offset=4, limit=2) == (
        "4|l4\n5|l5\n[lines 4–5 of total_lines 10, file_size 31, next_offset 6]"
    )
    assert read(tmp_path, "a", offset=9, limit=5).endswith("[lines 9–10 of total_lines 10, file_size 31]")


def test_an_offset_behind_the_end_says_how_many_lines_there_are(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo")
    for offset in (3, 99):
        assert read(tmp_path, "a", offset=offset) == f"[line {offset} is behind the end; total_lines 2, file_size 7]"


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert read(tmp_path, "a") == "[the file is empty; total_lines 0, file_size 0]"


def test_a_huge_line_is_shortened_and_a_full_page_says_where_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000 + b"\nshort\n")
    text = read(tmp_path, "a")
    assert "… [line of 3000001 bytes]\n2|short\n" in text
    assert "1 long line(s) shortened" in text
    small = Settings(tool_output=ToolOutputSettings(max_bytes=100))
    (tmp_path / "b").write_text("0123456789\n" * 50)
    page = Bench(tmp_path, settings=small).run("read_file", path="b").text
    assert "[lines 1–5 of total_lines 50 (output limit), file_size 550, next_offset 6]" in page


def test_a_far_page_of_a_large_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"".join(b"line %d\n" % n for n in range(1, 400_001)))
    assert read(tmp_path, "a", offset=399_999).startswith("399999|line 399999\n400000|line 400000\n")


@given(st.lists(st.text(alphabet="aé\u20ac \t", max_size=5), max_size=20), st.integers(1, 25), st.integers(1, 25))
def test_every_page_shows_exactly_its_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], offset: int, limit: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "law").write_text("".join(f"{line}\n" for line in lines))
    shown = [line for line in read(folder, "law", offset=offset, limit=limit).split("\n") if not line.startswith("[")]
    wanted = [f"{number}|{line}" for number, line in enumerate(lines, 1)][offset - 1 : offset - 1 + limit]
    assert shown == wanted


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text("")
    assert "Similar names there: settings.py" in read(tmp_path, "setings.py")
    assert "does not exist" in read(tmp_path, "no/such/x.py")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is a named pipe, not a file" in read(tmp_path, "pipe")
    assert "is a folder, not a file" in read(tmp_path, ".")


def test_binary_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x7fELF\x00\x01\x02")
    outcome = Bench(tmp_path).run("read_file", path="a")
    assert outcome.is_error
    assert "is a binary file (7 bytes)" in outcome.text


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-8"])
def test_a_byte_order_mark_tells_the_encoding_and_is_not_shown(name: str, tmp_path: Path) -> None:
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE, "utf-32-le": codecs.BOM_UTF32_LE}
    (tmp_path / "a").write_bytes(mark.get(name, codecs.BOM_UTF8) + "héllo\n".encode(name))
    text = read(tmp_path, "a")
    assert text.startswith("1|héllo\n")
    assert "byte-order mark" in text


def test_damage_in_utf_8_is_shown_and_does_not_hide_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"good \xff bad\n")
    assert read(tmp_path, "a").startswith("1|good \ufffd bad\n")


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), min_size=8))
def test_ascii_in_utf_16_without_mark_is_recognised(text: str) -> None:
    for name in ("utf-16-le", "utf-16-be"):
        encoding = detect(text.encode(name))
        assert encoding is not None
        assert encoding.name == name


def test_case_utf16_and_real_binary(tmp_path: Path) -> None:
    folder = case("files", "read-utf16-and-real-binary")
    for name in ("le.txt", "nobom.txt", "bin.dat"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    bench = Bench(tmp_path)
    assert bench.run("read_file", path="le.txt").text.startswith("1|héllo\n")
    assert "transcoded from UTF-16-LE with byte-order mark" in bench.run("read_file", path="le.txt").text
    assert bench.run("read_file", path="nobom.txt").text.startswith("1|plain ascii in utf-16\n")
    assert "transcoded" in bench.run("read_file", path="nobom.txt").text
    assert bench.run("read_file", path="bin.dat").is_error
    assert not bench.run("patch", path="le.txt", old_string="héllo", new_string="hallo\nwelt").is_error
    assert (tmp_path / "le.txt").read_bytes() == codecs.BOM_UTF16_LE + "hallo\r\nwelt\r\n".encode("utf-16-le")
