from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.compaction.identifiers import KEPT, Mention, identifiers, index, merged
from hermes_daemon.core.window import text_tokens


@pytest.mark.parametrize(
    "name",
    [
        "/srv/app/conf-1.toml", "src/store/rows.py", "OPS-5104", "W7F3A2", "deadbeef42", "max_tokens", "camelCaseName",
        "PascalName", "https://example.org/a?b=1", "10.0.0.17", "2026-05-01", "someone@example.org", "os.path.join",
        "ENOENT", "#4711", "v0.28.1",
    ],
)  # fmt: skip
def test_what_cannot_be_invented_again_is_found_exactly(name: str) -> None:
    assert name in set(identifiers(f"We saw {name}, and went on."))


def test_plain_words_are_not_names() -> None:
    assert list(identifiers("A well-known way to follow-up, she said, and then it was done.")) == []


def test_what_the_agent_typed_outweighs_what_a_table_repeats() -> None:
    table = "row_one 1\n" * 1_000
    found = merged((), [(table, 1.0), ("I use row_two", 3.0)], 1)
    assert index(found, "", 4) == ("row_two",)


def test_names_that_stand_elsewhere_or_inside_a_longer_one_cost_nothing() -> None:
    found = [Mention("/srv/app/main.py", 5, 1), Mention("main.py", 3, 1), Mention("OPS-1234", 4, 1)]
    assert index(found, "see OPS-1234", 100) == ("/srv/app/main.py",)


@given(st.lists(st.text(alphabet="ab_/.19 ", min_size=1, max_size=30), max_size=60), st.integers(0, 80))
def test_the_index_keeps_its_budget(texts: list[str], budget: int) -> None:
    found = merged((), [(text, 1.0) for text in texts], 1)
    assert sum(text_tokens(name) + 1 for name in index(found, "", budget)) <= budget


def test_only_the_best_are_remembered() -> None:
    many = "\n".join(f"name_{number}" for number in range(3 * KEPT))
    found = merged((Mention("the_one", 50, 1),), [(many, 1.0)], 2)
    assert len(found) == KEPT
    assert any(mention.name == "the_one" for mention in found)
