import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.tools.exact_match import replace_exactly
from hermes_daemon.tools.line_diff import file_change, unified
from tests.support.shared_data import case
from tests.support.tool_context import Bench


def test_a_new_file_is_made_with_its_folders_and_its_change_is_told(tmp_path: Path) -> None:
    outcome = Bench(tmp_path).run("write_file", path="x/y/a.py", content="one\ntwo\n")
    assert (tmp_path / "x/y/a.py").read_text() == "one\ntwo\n"
    (change,) = outcome.changes
    assert (change.path, change.kind, change.added, change.removed) == ("x/y/a.py", "created", 2, 0)
    assert change.diff == "--- /dev/null\n+++ b/x/y/a.py\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert "made 2 folder(s)" in outcome.text


def test_overwriting_needs_a_whole_and_fresh_look(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1\n2\n3\n")
    bench = Bench(tmp_path)
    assert "was not read" in bench.run("write_file", path="a", content="x").text
    bench.run("read_file", path="a", limit=2)
    assert "only in part" in bench.run("write_file", path="a", content="x").text
    bench.run("read_file", path="a")
    file.write_text("changed\n")
    assert "has changed since you read it" in bench.run("write_file", path="a", content="x").text
    assert "has changed since you read it" in bench.run("patch", path="a", old_string="changed", new_string="x").text
    assert file.read_text() == "changed\n"
    bench.run("read_file", path="a")
    assert not bench.run("write_file", path="a", content="x\n").is_error
    assert not bench.run("write_file", path="a", content="y\n").is_error
    assert file.read_text() == "y\n"


def test_mode_link_and_line_ends_of_an_existing_file_are_kept(tmp_path: Path) -> None:
    real = tmp_path / "real.sh"
    real.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    real.chmod(0o751)
    (tmp_path / "link.sh").symlink_to("real.sh")
    bench = Bench(tmp_path)
    bench.run("read_file", path="link.sh")
    assert not bench.run("write_file", path="link.sh", content="three\nfour\n").is_error
    assert (tmp_path / "link.sh").is_symlink()
    assert real.read_bytes() == b"\xef\xbb\xbfthree\r\nfour\r\n"
    assert real.stat().st_mode & 0o777 == 0o751
    assert sorted(os.listdir(tmp_path)) == ["link.sh", "real.sh"]


def test_all_names_of_a_file_see_its_new_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old text\n")
    os.link(tmp_path / "a", tmp_path / "b")
    assert not Bench(tmp_path).run("patch", path="a", old_string="old text", new_string="new").is_error
    assert (tmp_path / "b").read_text() == "new\n"


def test_a_full_disk_changes_nothing_and_says_so(tmp_path: Path) -> None:
    import resource
    import signal

    (tmp_path / "a").write_text("keep me\n")
    bench = Bench(tmp_path)
    bench.run("read_file", path="a")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))  # the kernel answers EFBIG, as a full quota would
    try:
        outcome = bench.run("write_file", path="a", content="x" * 50_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert outcome.is_error
    assert "The disk is full" in outcome.text
    assert "was not changed" in outcome.text
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "keep me\n"


def test_the_numbered_page_of_read_file_is_not_written_as_content(tmp_path: Path) -> None:
    outcome = Bench(tmp_path).run("write_file", path="a", content="1|one\n2|two\n")
    assert "$.content: the text carries the line numbers" in outcome.text
    assert not (tmp_path / "a").exists()
    assert not Bench(tmp_path).run("write_file", path="b", content="1|x\n7|y\n").is_error


def test_the_same_content_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    bench = Bench(tmp_path)
    bench.run("read_file", path="a")
    outcome = bench.run("write_file", path="a", content="x\n")
    assert outcome.changes == ()
    assert "nothing was changed" in outcome.text


def patch(folder: Path, old: str, new: str, **more: bool) -> str:
    return Bench(folder).run("patch", path="a", old_string=old, new_string=new, **more).text


def test_a_patch_replaces_the_one_place_and_shows_the_diff(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n  two\nthree\n")
    assert "-  two\n+  2\n" in patch(tmp_path, "  two", "  2")
    assert (tmp_path / "a").read_text() == "one\n  2\nthree\n"


def test_several_places_are_listed_and_only_replaced_when_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 7)
    assert "stands 7 times, at lines 1, 2, 3, 4, 5 and 2 more" in patch(tmp_path, "x", "y")
    assert (tmp_path / "a").read_text() == "x\n" * 7
    assert "7 replacement(s)" in patch(tmp_path, "x", "y", replace_all=True)
    assert (tmp_path / "a").read_text() == "y\n" * 7


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  \n", "x", "$.old_string: expected text that stands in the file"),
        ("one", "one", "$.new_string: is the same as old_string"),
        ("    two()\n", "x", "at line 2 with other spaces or indentation:\n2|  two()"),
        ("two(1)", "x", "The nearest lines are:\n1|one\n2|  two()\n3|three"),
        ("entirely unlike anything", "x", "nor anything like it"),
        ("gone\n", "three\n", "new_string already stands at line 3"),
    ],
)
def test_a_patch_that_does_not_fit_says_why_and_changes_nothing(old: str, new: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n  two()\nthree\n")
    assert words in patch(tmp_path, old, new)
    assert (tmp_path / "a").read_text() == "one\n  two()\nthree\n"


def test_bytes_that_are_no_text_survive_an_edit_beside_them(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9\nold\n")
    patch(tmp_path, "old", "new")
    assert (tmp_path / "a").read_bytes() == b"caf\xe9\nnew\n"


def test_what_is_told_of_damaged_bytes_can_be_sent(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9 old\n")
    bench = Bench(tmp_path)
    for old in ("nothing like it", "caf old", "old"):
        outcome = bench.run("patch", path="a", old_string=old, new_string="new")
        assert msgspec.json.encode(outcome)
    assert "+caf\ufffd new" in outcome.changes[0].diff
    assert (tmp_path / "a").read_bytes() == b"caf\xe9 new\n"


def test_a_secret_that_was_shown_masked_is_not_overwritten_by_its_mask(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("NAME=x\nDB_PASSWORD=hunter2hunter2\n")
    bench = Bench(tmp_path)
    bench.run("read_file", path="a")
    refused = bench.run("write_file", path="a", content="NAME=y\nDB_PASSWORD=***\n")
    assert "Line 2 holds a secret that was shown masked" in refused.text
    assert "masked secret" in patch(tmp_path, "DB_PASSWORD=***", "DB_PASSWORD=x")
    assert (tmp_path / "a").read_text() == "NAME=x\nDB_PASSWORD=hunter2hunter2\n"
    assert not bench.run("write_file", path="a", content="NAME=y\nDB_PASSWORD=hunter3hunter3\n").is_error


def test_mixed_line_ends_stay_where_nothing_changed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\r\nb\nc\r\nd\r\ne\n")
    patch(tmp_path, "c\nd", "C\nC2\nD")
    assert (tmp_path / "a").read_bytes() == b"a\r\nb\nC\r\nC2\r\nD\r\ne\n"


@given(st.lists(st.sampled_from(["ab\n", "ab\r\n", "c\n", "\r\n", "x"]), max_size=8), st.data())
def test_an_edit_changes_its_place_and_no_byte_elsewhere(pieces: list[str], data: st.DataObject) -> None:
    before, after = "".join(pieces), "".join(reversed(pieces))
    text = f"{before}<<old\r\nplace>>{after}"
    edit = replace_exactly(text, "<<old\nplace>>", data.draw(st.sampled_from(["", "n", "n\nm"])))
    assert edit.text is not None
    assert edit.text.startswith(before)
    assert edit.text.endswith(after)
    assert "\n" not in edit.text[len(before) : len(edit.text) - len(after)].replace("\r\n", "")


def test_a_change_in_a_long_file_is_compared_quickly_and_counted_right() -> None:
    old = [f"{n}\n" for n in range(60_000)]
    diff, added, removed = unified("a", old, [*old[:30_000], "new\n", *old[30_001:]])
    assert (added, removed) == (1, 1)
    assert "@@ -29998,7 +29998,7 @@\n" in diff
    diff, added, removed = unified("a", old, [f"x{n}\n" for n in range(60_000)])
    assert (added, removed) == (60_000, 60_000)
    assert len(diff) < 200


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=12)


@given(lines, lines)
def test_the_counts_of_a_change_are_those_of_its_diff(old: list[str], new: list[str]) -> None:
    change = file_change("f", "".join(old), "".join(new))
    body = change.diff.split("\n")[2:]
    assert change.added == sum(line.startswith("+") for line in body)
    assert change.removed == sum(line.startswith("-") for line in body)
    assert len(new) - len(old) == change.added - change.removed


def test_case_edit_bom(tmp_path: Path) -> None:
    folder = case("files", "edit-bom")
    (tmp_path / "a").write_bytes((folder / "before.txt").read_bytes())
    edit = json.loads((folder / "edit.json").read_text())
    assert "\ufeff" not in Bench(tmp_path).run("read_file", path="a").text
    patch(tmp_path, edit["old"], edit["new"])
    assert (tmp_path / "a").read_bytes() == (folder / "after.txt").read_bytes()


def test_case_fuzzy_single_line_indent(tmp_path: Path) -> None:
    folder = case("files", "patch-fuzzy-single-line-indent")
    (tmp_path / "a").write_bytes((folder / "before.txt").read_bytes())
    edit = json.loads((folder / "edit.json").read_text())
    text = patch(tmp_path, edit["old"], edit["new"])
    assert "with other spaces or indentation" in text
    assert "2|    foo(x);" in text
    assert (tmp_path / "a").read_bytes() == (folder / "before.txt").read_bytes()
    patch(tmp_path, "foo(x);", edit["new"])
    assert (tmp_path / "a").read_bytes() == (folder / "after.txt").read_bytes()


def test_case_context_indent_kept(tmp_path: Path) -> None:
    folder = case("files", "patch-context-indent-kept")
    (tmp_path / "a").write_bytes((folder / "before.py").read_bytes())
    assert "with other spaces" in patch(tmp_path, "   def f(self):\n      x = 1", "   def f(self):\n      x = 2")
    patch(tmp_path, "x = 1", "x = 2")
    assert (tmp_path / "a").read_bytes() == (folder / "after.py").read_bytes()


def test_case_crlf(tmp_path: Path) -> None:
    folder = case("files", "patch-crlf-markers")
    (tmp_path / "a").write_bytes((folder / "before.txt").read_bytes())
    patch(tmp_path, "x = 1\r\ny = 2\r\n", "x = 1\ny = 3\n")
    assert (tmp_path / "a").read_bytes() == (folder / "after.txt").read_bytes()
