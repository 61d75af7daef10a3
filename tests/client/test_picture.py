"""The picture of a session: from a terminal's cells to SVG."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


@pytest.fixture(scope="module")
def record() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record", PICTURES / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_runs_carry_their_column_and_style(record: ModuleType) -> None:
    found, style = record.runs("ab\x1b[1;31mcd\x1b[0me", record.Style())
    assert [(column, text) for column, text, _ in found] == [(0, "ab"), (2, "cd"), (4, "e")]
    assert found[1][2] == record.Style(ink=record.PALETTE[1], bold=True)
    assert style == record.Style()


@pytest.mark.parametrize(
    ("codes", "ink"),
    [
        ("38;5;196", "#ff0000"),
        ("38;5;232", "#080808"),
        ("38;2;1;2;3", "#010203"),
        ("92", "#b5e890"),
        ("38;5;1", "#e06c75"),
    ],
)
def test_colours_of_every_kind_are_understood(record: ModuleType, codes: str, ink: str) -> None:
    assert record.changed(record.Style(), codes).ink == ink


def test_the_picture_is_well_formed_and_holds_every_word(record: ModuleType) -> None:
    picture = ElementTree.fromstring(record.svg(["a < b & c", "\x1b[7mswapped\x1b[0m", "", "  in"]))
    assert [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")] == ["a < b & c", "swapped", "in"]


def test_the_picture_in_the_repository_shows_the_demo() -> None:
    words = "".join(ElementTree.parse(PICTURES / "session.svg").getroot().itertext())
    for shown in ("prices.py", "1 once  2 session", "waiting for your answer"):
        assert shown in words
