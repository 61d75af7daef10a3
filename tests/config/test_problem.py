import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.config.problem import ConfigError, dotted, nearest, parse_key


def test_a_fault_says_where_what_and_keeps_the_parts() -> None:
    error = ConfigError("expected text", path="/h/config.yaml", place=(3, 5), key=("providers", "a.b", "models", 0))
    assert str(error) == '/h/config.yaml:3:5: providers."a.b".models[0]: expected text'
    assert (error.line, error.column) == (3, 5)


@pytest.mark.parametrize("text", ["a..b", ".a", "a.", "a[x]", "a[1", 'a."b', "a[0]b"])
def test_a_malformed_key_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|closing"):
        parse_key(text)


names = st.text(min_size=1).filter(lambda text: '"' not in text)


@given(st.lists(names, min_size=1), st.integers(0, 99))
def test_a_key_survives_being_written_and_read(parts: list[str], index: int) -> None:
    key = (*parts, index)
    assert parse_key(dotted(key)) == key


def test_only_a_near_name_is_suggested() -> None:
    assert nearest("max_round", ["max_rounds", "mode"]) == " (did you mean `max_rounds`?)"
    assert nearest("zzz", ["max_rounds"]) == ""
