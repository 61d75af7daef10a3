from pathlib import Path
from typing import Any

import pytest

from tests.stories.story import Chain, Mismatch, Names, read


def fits(expected: Any, said: Any) -> bool:
    try:
        Names(work="/w").compare(expected, said)
    except Mismatch:
        return False
    return True


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"a": 1}, {"a": 1, "later": 2}),
        (["$int", "$number", "$text"], [1, 1.5, "x"]),
        ({"at": "$time"}, {"at": "2026-11-30T10:00:00.000Z"}),
        ({"a": "$absent"}, {}),
        ([1, "$rest"], [1, 2, 3]),
        ([1, "$rest"], [1]),
        ("$$5", "$5"),
        ("in ${work}/a", "in /w/a"),
        (["$x", "$x"], ["a", "a"]),
        ({"a": None}, {"a": None}),
    ],
)
def test_what_fits(expected: Any, said: Any) -> None:
    assert fits(expected, said)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, []),
        ("$int", True),
        ("$text", ""),
        ("$time", "2026-11-30 10:00"),
        ({"a": "$absent"}, {"a": None}),
        ([1], [1, 2]),
        ([1, 2, "$rest"], [1]),
        ("a", "b"),
        (["$x", "$x"], ["a", "b"]),
        (True, 1),
        (1, True),
        ({"a": {"b": "c"}}, {"a": {"b": "d"}}),
    ],
)
def test_what_does_not_fit(expected: Any, said: Any) -> None:
    assert not fits(expected, said)


def test_a_mismatch_names_the_place() -> None:
    with pytest.raises(Mismatch, match=r"\$\.a\[1\]\.b: expected 1, got 2"):
        Names().compare({"a": [0, {"b": 1}]}, {"a": [0, {"b": 2}]})


def test_a_client_says_the_value_that_a_name_got() -> None:
    names = Names(work="/w")
    names.compare({"id": "$session"}, {"id": "s-1"})
    assert names.fill({"a": ["$session", "${work}/x", "$$y", 3]}) == {"a": ["s-1", "/w/x", "$y", 3]}
    with pytest.raises(Mismatch, match=r"\$turn has no value yet"):
        names.fill("$turn")


def test_a_chain_takes_every_event_once_and_in_order() -> None:
    chain = Chain("e", 4)
    chain.follow({"epoch": "e", "prev": 4, "seq": 7, "kind": "k"})
    for epoch, prev, seq in (("e", 4, 7), ("e", 8, 9), ("x", 7, 8), ("e", 7, 7)):
        with pytest.raises(Mismatch, match="expected to continue"):
            chain.follow({"epoch": epoch, "prev": prev, "seq": seq, "kind": "k"})
    chain.follow({"epoch": "e", "prev": 7, "seq": 8, "kind": "k"})


@pytest.mark.parametrize(
    "line",
    ['{"from": "client:a"}', '{"from": "daemon", "frame": {}}', '{"from": "client:a", "frame": {}, "raw": ""}', "{"],
)
def test_a_line_that_is_no_step_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"story": "s", "about": "a"}\n' + line + "\n")
    with pytest.raises(ValueError, match=r"s\.jsonl:2: "):
        read(path)
