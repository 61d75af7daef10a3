from __future__ import annotations

from hermes_daemon.core.compaction.context import Memory
from hermes_daemon.core.compaction.identifiers import Mention
from hermes_daemon.core.compaction.marker import CLOSING, INDEX, fitted, marker
from hermes_daemon.core.window import text_tokens
from tests.support.compaction_histories import SMALL


def test_a_marker_holds_summary_names_and_user_texts() -> None:
    memory = Memory(
        "- all is read", mentions=(Mention("OPS-5104", 3, 1),), users=("older ask", "newer ask"), users_left_out=2
    )
    row = marker(memory, SMALL)
    text = row.message.text
    assert row.kind == "summary"
    assert "- all is read" in text
    assert INDEX + "OPS-5104" in text
    assert text.index("newer ask") < text.index("older ask")
    assert "[2 older messages of the user are not quoted; session_search finds them.]" in text
    assert text.endswith(CLOSING)


def test_the_newest_texts_fit_and_the_others_are_counted() -> None:
    kept, left_out = fitted([f"text number {n} " * 20 for n in range(30)], 4, 500)
    assert kept[-1].startswith("text number 29")
    assert left_out == 34 - len(kept)
    assert sum(map(text_tokens, kept)) <= 500


def test_a_text_that_is_too_long_keeps_both_ends_visibly() -> None:
    (kept,), _ = fitted(["begin " + "word " * 5_000 + " end"], 0, 1_000)
    assert kept.startswith("begin ")
    assert kept.endswith(" end")
    assert "characters left out" in kept
