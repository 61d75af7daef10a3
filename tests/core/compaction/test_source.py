from __future__ import annotations

from hermes_daemon.core.compaction.rows import said, written
from hermes_daemon.core.compaction.source import censored, clip, source_parts
from hermes_daemon.core.redact import redact
from hermes_protocol.content import Message, ReasoningPart, TextPart, ToolCall
from tests.support.compaction_histories import assistant, plain, result, session, user

KEY = "sk-" + "a1B2c3D4e5F6g7H8i9J0"


def test_credentials_leave_as_a_word_and_before_anything_is_cut() -> None:
    assert censored(f"the key is {KEY}, dots... stay", redact) == "the key is [REDACTED], dots... stay"
    long = said(result("c", "x" * 3_980 + f" {KEY} " + "y" * 9_000))
    (part,) = source_parts([long], redact, 10_000)
    assert KEY[:8] not in part
    assert "[REDACTED]" in part


def test_rows_are_labelled_and_reasoning_and_markers_are_left_out() -> None:
    rows = [
        said(user("look")),
        written("assistant", "the old summary", "summary"),
        said(Message("assistant", (ReasoningPart("secret thought"), TextPart("I look."), ToolCall("c", "ls", "{}")))),
        said(result("c", "a.py", is_error=True)),
    ]
    assert source_parts(rows, plain, 1_000) == (
        "USER: look\n\nASSISTANT: I look.\n[calls ls] {}\n\nTOOL: [result c failed] a.py",
    )


def test_parts_hold_all_rows_in_order() -> None:
    rows = [said(message) for message in session(30)]
    parts = source_parts(rows, plain, 500)
    assert len(parts) > 3
    assert "\n\n".join(parts) == source_parts(rows, plain, 10**6)[0]


def test_a_single_row_beyond_the_room_is_cut_visibly() -> None:
    (part,) = source_parts([said(assistant("0a1b " * 1_000))], plain, 200)
    assert "characters left out" in part
    assert len(part) < 400


def test_a_clipped_text_keeps_both_ends() -> None:
    assert clip("abc", 3, 1, 1) == "abc"
    assert clip("a" * 10 + "b" * 10, 8, 3, 2) == "aaa\n[... 15 characters left out ...]\nbb"
