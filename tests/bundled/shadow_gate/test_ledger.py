"""The ledgers: lines that stay whole, whoever writes, reads or is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.bundled.shadow_gate.ledger import InvalidRow, Ledgers, LedgerUnavailable, Row
from hermes_daemon.bundled.shadow_gate.policy import valid_name

NAME = "area.decision"


def ledgers(folder: Path, max_rows: int = 5000, **more: Any) -> Ledgers:
    return Ledgers(str(folder / "ledgers"), max_rows, lambda: "2030-01-01T00:00:00.000Z", **more)


def fill(folder: str, writer: int, count: int, max_rows: int) -> None:
    mine = ledgers(Path(folder), max_rows)
    for number in range(count):
        mine.append_verdict(NAME, f"{writer}-{number}", "high", {"text": "x" * (number % 300)})


def test_rows_are_kept_in_the_order_they_were_written(tmp_path: Path) -> None:
    mine = ledgers(tmp_path)
    mine.append_verdict(NAME, "k", "high", {"model": "m"})
    mine.append_outcome(NAME, "k", "denied")
    read = ledgers(tmp_path).read(NAME)
    at = "2030-01-01T00:00:00.000Z"
    assert read.rows == (Row("verdict", "k", "high", at, {"model": "m"}), Row("outcome", "k", "denied", at))
    assert mine.names() == (NAME,)
    assert mine.read("other") == mine.read("another")
    assert os.stat(mine.path(NAME)).st_mode & 0o777 == 0o600
    assert os.stat(mine.folder).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["../x", "", "A", "a..b", ".a", "a.", "a/b", "a b", "1a", "a\n", "a" * 201, None, 3])
def test_a_name_that_could_be_another_file_is_refused(tmp_path: Path, name: Any) -> None:
    with pytest.raises(InvalidRow, match="decision: expected"):
        ledgers(tmp_path).append_verdict(name, "k", "high")
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=30))
def test_a_valid_name_is_a_file_of_its_own_inside_the_folder(name: str) -> None:
    if valid_name(name):
        assert os.path.normpath(os.path.join("/ledgers", name)) == f"/ledgers/{name}"
        assert not name.startswith(".")


@pytest.mark.parametrize(
    ("key", "value", "meta", "field"),
    [
        ("", "v", {}, "key"), ("k" * 201, "v", {}, "key"), (7, "v", {}, "key"), ("k", "", {}, "verdict"),
        ("k", True, {}, "verdict"), ("k", "v", {"x": object()}, "meta"), ("k", "v", {"x": "y" * 20_000}, "meta"),
    ],
)  # fmt: skip
def test_a_row_that_does_not_fit_is_refused_by_its_field(
    tmp_path: Path, key: Any, value: Any, meta: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRow, match=f"^{field}: "):
        ledgers(tmp_path).append_verdict(NAME, key, value, meta)


def test_secrets_are_not_kept(tmp_path: Path) -> None:
    mine = ledgers(tmp_path, redact=lambda text: text.replace("hunter2", "***"))
    mine.append_verdict(NAME, "k hunter2", "high hunter2", {"a": ["hunter2", {"b": "hunter2"}], "n": 1})
    assert b"hunter2" not in Path(mine.path(NAME)).read_bytes()
    assert mine.read(NAME).rows[0].meta == {"a": ["***", {"b": "***"}], "n": 1}


def test_A2_6_two_processes_that_add_a_thousand_rows_each_leave_two_thousand_whole_lines(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=fill, args=(str(tmp_path), n, 1000, 5000)) for n in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(100)
        assert writer.exitcode == 0
    lines = Path(ledgers(tmp_path).path(NAME)).read_bytes().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 2000
    for writer_number in (1, 2):
        own = [row["key"] for row in rows if row["key"].startswith(f"{writer_number}-")]
        assert own == [f"{writer_number}-{number}" for number in range(1000)]


def test_threads_of_one_process_take_turns_as_well(tmp_path: Path) -> None:
    threads = [threading.Thread(target=fill, args=(str(tmp_path), n, 50, 5000)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = ledgers(tmp_path).read(NAME)
    assert (len(read.rows), read.corrupt) == (200, 0)


def test_A2_7_a_corrupt_line_is_counted_and_the_rest_is_used(tmp_path: Path) -> None:
    mine = ledgers(tmp_path)
    mine.append_verdict(NAME, "a", "high")
    with open(mine.path(NAME), "ab") as file:
        file.write(b'{"kind": "verdict", "key"\n\xff\xfe\n{"kind":"opinion","key":"a","value":"x"}\n[]\n\n')
    mine.append_outcome(NAME, "a", "denied")
    read = mine.read(NAME)
    assert [row.value for row in read.rows] == ["high", "denied"]
    assert read.corrupt == 5


def test_a_line_that_a_killed_writer_left_unfinished_does_not_spoil_the_next(tmp_path: Path) -> None:
    mine = ledgers(tmp_path)
    mine.append_verdict(NAME, "a", "high")
    with open(mine.path(NAME), "ab") as file:
        file.write(b'{"kind":"verdict","ke')
    assert (len(mine.read(NAME).rows), mine.read(NAME).corrupt) == (1, 0)
    mine.append_outcome(NAME, "a", "denied")
    assert (len(mine.read(NAME).rows), mine.read(NAME).corrupt) == (2, 1)


@pytest.mark.parametrize("max_rows", [1, 10, 100])
def test_the_oldest_rows_go_when_there_are_too_many(tmp_path: Path, max_rows: int) -> None:
    mine, other = ledgers(tmp_path, max_rows), ledgers(tmp_path, max_rows)
    for number in range(3 * max_rows):
        (mine if number % 3 else other).append_verdict(NAME, str(number), "high")
        kept = [row.key for row in mine.read(NAME).rows]
        assert kept == [str(n) for n in range(max(0, number + 1 - max_rows), number + 1)]
        lines = Path(mine.path(NAME)).read_bytes().count(b"\n")
        assert lines <= max_rows + max_rows // 50
    assert sorted(os.listdir(mine.folder)) == [".lock", f"{NAME}.jsonl"]


def test_A2_8_a_reader_sees_the_whole_old_file_or_the_whole_new_one(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    mine = ledgers(tmp_path, 40)
    fill(str(tmp_path), 0, 40, 40)
    with open(mine.path(NAME), "rb") as opened:
        opened.readline()
        writer = context.Process(target=fill, args=(str(tmp_path), 1, 200, 40))
        writer.start()
        while writer.is_alive():
            read = mine.read(NAME)
            assert read.corrupt == 0
            assert len(read.rows) == 40
            numbers = [int(row.key.partition("-")[2]) for row in read.rows if row.key.startswith("1-")]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        writer.join()
        assert writer.exitcode == 0
        rest = opened.readlines()  # the one that was open before is still the old one, to its end
    assert [json.loads(line)["key"] for line in rest][:39] == [f"0-{number}" for number in range(1, 40)]
    assert mine.read(NAME).rows[-1].key == "1-199"


def test_a_ledger_that_cannot_be_used_is_said_with_its_path(tmp_path: Path) -> None:
    mine = ledgers(tmp_path)
    os.makedirs(mine.path(NAME))
    with pytest.raises(LedgerUnavailable, match=r"area\.decision\.jsonl: "):
        mine.read(NAME)
    with pytest.raises(LedgerUnavailable, match=r"area\.decision\.jsonl: "):
        mine.append_verdict(NAME, "k", "high")
