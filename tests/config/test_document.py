from typing import Any

import pytest

from hermes_daemon.config.document import Document, parse
from hermes_daemon.config.problem import Notes


def read(text: str) -> tuple[Document | None, Notes]:
    notes = Notes("config.yaml")
    return parse(text, notes), notes


def values(text: str) -> dict[str, Any]:
    document, notes = read(text)
    assert document is not None, notes.errors
    return document.values


def error(text: str) -> str:
    document, notes = read(text)
    assert document is None
    return str(notes.errors[0])


@pytest.mark.parametrize("word", ["off", "no", "on", "yes", "y", "2026-11-30", "12:30", "0o17x"])
def test_words_that_yaml_1_1_would_convert_stay_text(word: str) -> None:
    assert values(f"mode: {word}") == {"mode": word}


def test_numbers_booleans_and_nothing_are_read_as_what_they_are() -> None:
    text = "a: 10\nb: 1.5\nc: 1e3\nd: true\ne: ~\nf:\ng: 0x10\nh: -3\ni: .5"
    assert values(text) == {"a": 10, "b": 1.5, "c": 1000.0, "d": True, "e": None, "f": None, "g": 16, "h": -3, "i": 0.5}


def test_every_key_knows_its_line_and_column() -> None:
    document, _ = read("agent:\n  max_rounds: 3\nmodels:\n  - name: a\n  - name: b\n")
    assert document is not None
    assert document.places[("agent", "max_rounds")] == (2, 3)
    assert document.places[("models", 1, "name")] == (5, 5)


def test_a_duplicate_key_warns_with_both_lines_and_the_last_one_counts() -> None:
    document, notes = read("a: 1\nb: 2\na: 3\n")
    assert document is not None
    assert document.values == {"a": 3, "b": 2}
    assert notes.warnings == ["config.yaml:3:1: a: given twice; this one counts, the one in line 1 does not"]


def test_a_tab_as_indentation_is_named_with_its_line() -> None:
    message = error("agent:\n\tmax_rounds: 3\n")
    assert message.startswith("config.yaml:2:1: a tab indents this line")


def test_an_indentation_that_does_not_line_up_is_named_with_its_line() -> None:
    assert error("agent:\n  max_rounds: 3\n   api_max_retries: 1\n").startswith("config.yaml:3:")
    assert "check the indentation" in error("agent:\n   max_rounds: 3\n  api_max_retries: 1\n")


def test_an_unclosed_quote_and_a_control_character_have_a_place() -> None:
    assert error('model:\n  default: "x\n').startswith("config.yaml:3:")
    assert error("a: 1\nb: \x01\n").startswith("config.yaml:2:4:")


def test_a_list_at_the_top_is_refused() -> None:
    assert error("- a\n- b\n") == "config.yaml:1:1: expected sections such as `model:` at the top of the file"


def test_comments_only_or_nothing_is_an_empty_document() -> None:
    assert values("# nothing yet\n") == {}
    assert values("---\n") == {}


def test_anchors_and_merges_work_and_own_keys_win() -> None:
    text = "base: &b {x: 1, y: 2}\nnext:\n  <<: *b\n  y: 3\n"
    assert values(text)["next"] == {"x": 1, "y": 3}


def test_an_alias_to_itself_is_refused() -> None:
    assert "contains itself" in error("a: &a\n  b: *a\n")


def test_aliases_cannot_multiply_without_bound() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"] + [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    assert "expands to more than" in error("\n".join(lines))


def test_a_tag_that_would_run_code_is_refused_with_its_place() -> None:
    message = error("a: !!python/object/apply:os.system [x]\nb: !!python/name:os.system x\n")
    assert message.startswith("config.yaml:")
    assert "python" in message


def test_a_second_document_is_refused() -> None:
    assert error("a: 1\n---\nb: 2\n").startswith("config.yaml:2:1")
