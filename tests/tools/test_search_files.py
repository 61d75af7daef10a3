import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.settings import Settings, ToolOutputSettings
from hermes_daemon.tools.search.globs import matcher
from hermes_daemon.tools.search.model import Search
from hermes_daemon.tools.search.run import run_search
from tests.support.shared_data import case
from tests.support.tool_context import Bench

WITHOUT: Mapping[str, str] = {"PATH": "/nonexistent"}
WITH: Mapping[str, str] = {"PATH": os.defpath}
BOTH = pytest.mark.parametrize("env", [WITH, WITHOUT], ids=["ripgrep", "python"])


@pytest.fixture(autouse=True)
def _ripgrep_where_it_is_wanted(request: pytest.FixtureRequest) -> None:
    if "ripgrep" in request.node.name and shutil.which("rg", path=os.defpath) is None:
        pytest.skip("rg is not installed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A work tree with ignored, hidden, binary, UTF-16 and linked files."""
    for name, content in {
        "a.py": b"import os\nneedle = 1\nprint(needle)\n",
        "b.txt": b"Needle in text\r\nneedle\r\n",
        "sub/c.ts": b"const needle = 2\n",
        "sub/deep/d.tsx": b"needle\n",
        "sub/.gitignore": b"*.log\n!keep.log\n",
        "sub/x.log": b"needle\n",
        "sub/keep.log": b"needle kept\n",
        ".gitignore": b"build/\n/only-root\n",
        "build/out.py": b"needle\n",
        "only-root": b"needle\n",
        "sub/only-root": b"needle\n",
        ".github/w.yml": b"needle: 1\n",
        ".git/config": b"needle\n",
        ".ssh/known": b"needle\n",
        "bin.dat": b"needle\x00needle\n",
        "wide.txt": b"\xff\xfe" + "needle wide\n".encode("utf-16-le"),
        "mark.txt": b"\xef\xbb\xbfneedle mark\n",
        "latin.txt": b"caf\xe9 needle\n",
        "sp ace.txt": b"needle\n",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "linked").symlink_to("sub")
    return tmp_path


def search(folder: Path, env: Mapping[str, str], **args: Any) -> str:
    return Bench(folder, env=env).run("search_files", **args).text


@BOTH
def test_matches_come_with_path_and_line_and_ignored_files_do_not(tree: Path, env: Mapping[str, str]) -> None:
    assert search(tree, env, pattern="needle").split("\n") == [
        ".github/w.yml:1:needle: 1",
        "a.py:2:needle = 1",
        "a.py:3:print(needle)",
        "b.txt:2:needle",
        "latin.txt:1:caf\ufffd needle",
        "mark.txt:1:needle mark",
        "sp ace.txt:1:needle",
        "sub/c.ts:1:const needle = 2",
        "sub/deep/d.tsx:1:needle",
        "sub/keep.log:1:needle kept",
        "sub/only-root:1:needle",
        "wide.txt:1:needle wide",
        "[total_count 12, shown 1–12]",
    ]


@BOTH
def test_a_folder_below_obeys_the_rules_above_it(tree: Path, env: Mapping[str, str]) -> None:
    (tree / "sub/build").mkdir()
    (tree / "sub/build/x.py").write_text("needle\n")
    assert "build" not in search(tree, env, pattern="needle", path="sub")
    assert search(tree, env, pattern="needle", path="sub/deep").startswith("sub/deep/d.tsx:1:needle\n")


@BOTH
def test_an_ignored_folder_that_is_named_is_searched(tree: Path, env: Mapping[str, str]) -> None:
    assert search(tree, env, pattern="needle", path="build").startswith("build/out.py:1:needle\n")


@BOTH
def test_outside_a_repository_rules_count_from_the_searched_folder(tree: Path, env: Mapping[str, str]) -> None:
    shutil.rmtree(tree / ".git")
    (tree / "sub/build").mkdir()
    (tree / "sub/build/x.py").write_text("needle\n")
    assert "sub/build/x.py" in search(tree, env, pattern="needle", path="sub")
    assert "sub/x.log" not in search(tree, env, pattern="needle", path="sub")
    assert "build" not in search(tree, env, pattern="needle")


@BOTH
@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*.py", ["a.py"]),
        ("*.{ts,tsx}", ["sub/c.ts", "sub/deep/d.tsx"]),
        ("sub/**/*.tsx", ["sub/deep/d.tsx"]),
        ("sub/*.ts*", ["sub/c.ts"]),
        ("[ab].*", ["a.py", "b.txt"]),
        ("out.py", []),
    ],
)
def test_a_glob_narrows_and_never_brings_back_what_is_ignored(
    tree: Path, env: Mapping[str, str], glob: str, files: list[str]
) -> None:
    text = search(tree, env, pattern="needle", file_glob=glob, output_mode="files_only")
    assert [line for line in text.split("\n") if not line.startswith("[")] == files


@BOTH
def test_counts_pages_and_the_end_of_pages(tree: Path, env: Mapping[str, str]) -> None:
    assert search(tree, env, pattern="needle", output_mode="count", path="a.py") == "a.py:2\n[total_count 1, shown 1–1]"
    assert search(tree, env, pattern="needle", limit=2, offset=1) == (
        "a.py:2:needle = 1\na.py:3:print(needle)\n[total_count 12, shown 2–3, next_offset 3]"
    )
    assert search(tree, env, pattern="needle", offset=50) == "[total_count 12; offset 50 is behind the end]"
    assert search(tree, env, pattern="nothing like it") == "[nothing found]"


@BOTH
def test_context_stands_around_its_match(tmp_path: Path, env: Mapping[str, str]) -> None:
    (tmp_path / "a").write_text("1\nx\n3\n4\n5\nx\nx\n8\n")
    assert search(tmp_path, env, pattern="x", context=1) == (
        "a-1-1\na:2:x\na-3-3\n--\na-5-5\na:6:x\na:7:x\na-8-8\n[total_count 3, shown 1–3]"
    )


@BOTH
def test_files_are_found_by_glob_or_by_a_part_of_their_name(tree: Path, env: Mapping[str, str]) -> None:
    assert search(tree, env, pattern="*.py", target="files").startswith("a.py\n[total_count 1")
    assert search(tree, env, pattern="only", target="files").startswith("sub/only-root\n[")
    assert search(tree, env, pattern="sub/**/d.*", target="files").startswith("sub/deep/d.tsx\n[")
    assert "link" not in search(tree, env, pattern="*", target="files")


@BOTH
def test_the_newest_file_may_come_first(tree: Path, env: Mapping[str, str]) -> None:
    os.utime(tree / "sub/c.ts", (2_000_000_000, 2_000_000_000))
    text = search(tree, env, pattern="needle", output_mode="files_only", order="modified")
    assert text.startswith("sub/c.ts\n")


@BOTH
def test_a_pattern_that_is_none_is_an_error_with_its_reason(tree: Path, env: Mapping[str, str]) -> None:
    outcome = Bench(tree, env=env).run("search_files", pattern="a(b")
    assert outcome.is_error
    assert "unclosed group" in outcome.text or "unterminated subpattern" in outcome.text


@BOTH
def test_lookahead_is_understood_by_both(tree: Path, env: Mapping[str, str]) -> None:
    assert "a.py:2:needle = 1" in search(tree, env, pattern=r"needle(?= = 1)")


def test_a_pattern_with_a_line_break_is_refused(tree: Path) -> None:
    for pattern in ("a\nb", r"a\nb"):
        assert "line by line" in search(tree, WITH, pattern=pattern)
    assert "nothing found" in search(tree, WITH, pattern=r"a\\nb")


@BOTH
def test_a_long_line_shows_the_part_around_its_match(tmp_path: Path, env: Mapping[str, str]) -> None:
    (tmp_path / "a").write_text("é" * 5000 + "needle" + "y" * 5000 + "\n")
    text = search(tmp_path, env, pattern="needle")
    assert text.startswith("a:1:…" + "é" * 100 + "needle" + "y" * 294 + "… [line of 10006 characters]")


def test_a_full_page_says_where_to_go_on(tree: Path) -> None:
    settings = Settings(tool_output=ToolOutputSettings(max_bytes=60))
    text = Bench(tree, settings=settings, env=WITH).run("search_files", pattern="needle").text
    assert text.endswith("[total_count 12, shown 1–2, next_offset 2]")


def test_a_pattern_that_never_ends_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 5000 + "b\n")
    found = asyncio.run(run_search(Search(str(tmp_path), "content", "(a|a)*$"), WITHOUT, limit_s=1.5))
    assert found.partial == "stopped after 1.5 s"


def test_a_cancelled_search_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 5000 + "b\n")

    async def scene() -> None:
        task = asyncio.ensure_future(run_search(Search(str(tmp_path), "content", "(a|a)*$"), WITHOUT))
        while not _children():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert _children() == []

    asyncio.run(scene())


def _children() -> list[str]:
    """Children of this process, running or not waited for."""
    return subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "hermes_daemon.tools.search.worker"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()


@BOTH
def test_case_search_follows_file_link(env: Mapping[str, str], tmp_path: Path) -> None:
    folder = case("files", "search-follows-file-link")
    subprocess.run(["bash", str(folder / "setup.sh")], cwd=tmp_path, check=True)
    bench = Bench(tmp_path / "ws", env=env)
    for path in (".", "up", "loop", "link.txt", ".."):
        outcome = bench.run("search_files", pattern="TOPSECRET", path=path)
        assert "TOPSECRET" not in outcome.text.replace("'TOPSECRET'", "")


names = st.text(alphabet="ab./", min_size=1, max_size=8)


@given(names)
def test_a_plain_name_matches_itself(name: str) -> None:
    assert matcher(name.strip("./") or "a")(name.strip("./") or "a")


@given(st.text(alphabet="ab*?[]{},/!^-\\", min_size=1, max_size=10), names)
def test_any_pattern_is_a_pattern(pattern: str, name: str) -> None:
    assert matcher(pattern)(name) in (True, False)
