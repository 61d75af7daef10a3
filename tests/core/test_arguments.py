import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.arguments import parse_arguments
from hermes_daemon.core.lenient_json import NotJson, read_lenient
from hermes_daemon.core.ports import Rejected, ToolCard
from tests.support.shared_data import case

WRITE = ToolCard(
    "write_file",
    "file",
    "",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "content": {"type": "string"},
            "count": {"type": "integer", "minimum": 1},
            "flag": {"type": "boolean"},
            "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "names": {"type": "array", "items": {"type": "string"}},
            "mode": {"enum": ["a", "b"]},
        },
        "required": [],
        "additionalProperties": False,
    },
)
NEEDS_PATH = ToolCard(
    "read_file", "file", "", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)


def parse(raw: str, card: ToolCard = WRITE, *, cut: bool = False) -> dict[str, Any]:
    return parse_arguments(raw, card, cut=cut)


@pytest.mark.parametrize("raw", ["", " \n", "{}"])
def test_an_empty_text_means_no_arguments(raw: str) -> None:
    assert parse(raw) == {}


@pytest.mark.parametrize(
    ("raw", "kind"), [("null", "null"), ("[1,2]", "an array"), ("7", "a number"), ("true", "a boo")]
)
def test_what_is_no_object_is_rejected_by_its_kind(raw: str, kind: str) -> None:
    with pytest.raises(Rejected, match=f"must be a JSON object, got {kind}"):
        parse(raw)


def test_a_string_that_holds_an_object_is_unwrapped_once() -> None:
    once = json.dumps({"path": "a"})
    assert parse(json.dumps(once)) == {"path": "a"}
    with pytest.raises(Rejected, match="got a string"):
        parse(json.dumps(json.dumps(once)))


def test_the_echo_of_a_bad_text_is_bounded_and_tells_the_full_length() -> None:
    raw = "[" + "1," * 5000 + "1]"
    with pytest.raises(Rejected) as caught:
        parse(raw)
    assert f"Received ({len(raw)} characters" in caught.value.message
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"count": "3"}', {"count": 3}),
        ('{"count": 3.0}', {"count": 3}),
        ('{"count": "9007199254740993"}', {"count": 9007199254740993}),
        ('{"count": 9007199254740993}', {"count": 9007199254740993}),
        ('{"flag": "true"}', {"flag": True}),
        ('{"ratio": "0.5"}', {"ratio": 0.5}),
        ('{"ratio": null}', {"ratio": None}),
        ('{"count": null}', {}),
        ('{"content": 12}', {"content": "12"}),
        ('{"names": "[\\"a\\"]"}', {"names": ["a"]}),
    ],
)
def test_coercions_lose_nothing(raw: str, value: dict[str, Any]) -> None:
    parsed = parse(raw)
    assert parsed == value
    assert [type(entry) for entry in parsed.values()] == [type(entry) for entry in value.values()]


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        ('{"count": 3.5}', "$.count", "expected an integer, got 3.5"),
        ('{"count": 0}', "$.count", "expected a number >= 1, got 0"),
        ('{"count": true}', "$.count", "expected an integer, got true"),
        ('{"content": {"a": 1}}', "$.content", "expected a string"),
        ('{"flag": "yes"}', "$.flag", "expected true or false"),
        ('{"names": ["a", []]}', "$.names[1]", "expected a string"),
        ('{"mode": "c"}', "$.mode", 'expected one of "a", "b", got "c"'),
        ('{"pth": "a"}', "$.pth", "did you mean 'path'"),
    ],
)
def test_what_does_not_fit_is_rejected_with_its_path(raw: str, path: str, words: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse(raw)
    assert caught.value.path == path
    assert words in caught.value.message


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(Rejected, match="required, and missing; given were file") as caught:
        parse('{"file": "a"}', NEEDS_PATH)
    assert caught.value.path == "$.path"


@pytest.mark.parametrize(
    "raw",
    [
        '{"path": "a", "content": "b",}',
        "{'path': 'a', 'content': 'b'}",
        '{path: "a", content: "b"}',
        '```json\n{"path": "a", "content": "b"}\n```',
    ],
)
def test_small_slips_are_read_as_meant(raw: str) -> None:
    assert parse(raw) == {"path": "a", "content": "b"}


def test_raw_line_breaks_inside_a_string_are_kept() -> None:
    assert parse('{"content": "a\nb\tc"}') == {"content": "a\nb\tc"}


@pytest.mark.parametrize(
    "raw",
    [
        '{"content": "rm -rf /tmp/x',
        '{"content": "a"',
        '{"content": "a",',
        '{"content"',
        "{",
        '{"content": "a\\',
        '{"flag": tru',
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_a_text_that_breaks_off_is_never_completed(raw: str, cut: bool) -> None:
    with pytest.raises(Rejected, match="cut off by the model's output limit" if cut else "break off"):
        parse(raw, cut=cut)


def test_a_cut_call_whose_json_is_complete_is_taken_and_an_empty_one_is_not() -> None:
    assert parse('{"path": "a"}', cut=True) == {"path": "a"}
    with pytest.raises(Rejected, match="output limit"):
        parse("", cut=True)
    with pytest.raises(Rejected, match="output limit"):
        parse('{"path": "a",}', cut=True)


@pytest.mark.parametrize("raw", ['{"ratio": NaN}', '{"ratio": 1e999}', '{"ratio": 1e999,}', '{"path":"a","path":"b"}'])
def test_values_without_one_meaning_are_rejected(raw: str) -> None:
    with pytest.raises(Rejected, match="not JSON"):
        parse(raw)


@pytest.mark.parametrize("tail", ["", ","])
def test_half_a_surrogate_pair_is_rejected_with_its_path(tail: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse('{"content": "x \\ud83c y"' + tail + "}")
    assert caught.value.path == "$.content"


@pytest.mark.parametrize("raw", ["[" * 100_000, '{"a":' * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_deep_nesting_is_rejected_and_not_a_crash(raw: str) -> None:
    with pytest.raises(Rejected):
        parse(raw)


def test_an_integer_with_too_many_digits_is_rejected_and_not_a_crash() -> None:
    with pytest.raises(Rejected):
        parse('{"count": ' + "1" * 5000 + "}")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.booleans())
def test_the_tolerant_reader_agrees_with_the_strict_one_on_json(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read_lenient(text) == json.loads(text)


@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=3), st.data())
def test_no_shorter_text_of_a_call_is_ever_accepted(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    end = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(NotJson):
        read_lenient(text[:end])


def test_case_surrogate_pair_escape(tmp_path: Path) -> None:
    raw = (case("history", "history-surrogate-pair-escape") / "arguments.txt").read_text()
    content = parse(raw)["content"]
    assert content == "drink \U0001f378"
    assert content.encode().endswith(b"\xf0\x9f\x8d\xb8")


def test_case_non_object_arguments() -> None:
    texts = json.loads((case("history", "history-non-object-arguments") / "arguments.json").read_text())
    assert parse(texts[3]) == {"path": "a"}
    for raw in [*texts[:3], texts[4]]:
        with pytest.raises(Rejected):
            parse(raw)
    with pytest.raises(Rejected) as caught:
        parse(texts[5].removesuffix("}"))
    assert len(caught.value.message) < 1100
    assert str(len(texts[5].removesuffix("}"))) in caught.value.message


def test_case_empty_arguments() -> None:
    messages = json.loads((case("history", "history-empty-arguments") / "transcript.json").read_text())
    for call in messages[1]["tool_calls"]:
        assert parse(call["function"]["arguments"]) == {}


def test_case_truncated_arguments() -> None:
    messages = json.loads((case("history", "history-truncated-arguments") / "transcript.json").read_text())
    raw = messages[1]["tool_calls"][0]["function"]["arguments"]
    for cut in (True, False):
        with pytest.raises(Rejected, match="not run"):
            parse(raw, cut=cut)
