"""Items as text."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_shell.transcript import fenced, markdown, output, plain, shortened

CALL: dict[str, Any] = {"type": "toolCall", "callId": "c", "name": "terminal", "args": '{"command":"ls"}'}


def test_a_transcript_is_a_markdown_document_with_every_item() -> None:
    items: list[dict[str, Any]] = [
        {"type": "userMessage", "input": [{"type": "text", "text": "hi"}, {"type": "file", "path": "a.py"}]},
        {"type": "reasoning", "text": "hmm"},
        {**CALL, "output": {"text": "a.py\n"}},
        {"type": "fileChange", "path": "a.py", "kind": "modified", "diff": "-a\n+b", "added": 1, "removed": 1},
        {"type": "agentMessage", "text": "# Done", "status": "partial"},
        {"type": "notice", "level": "info", "text": "fyi"},
    ]
    text = markdown({"sessionId": "s1", "title": "Try", "cwd": "/w"}, items)
    for part in ("# Try", "- Folder: `/w`", "hi\n[file: a.py]", "hmm", "### Tool `terminal`", "```diff\n-a\n+b\n```"):
        assert part in text
    assert "## Assistant (partial)\n\n# Done" in text
    assert text.endswith("*info: fyi*\n")


@given(st.text(alphabet="`a\n"))
def test_no_text_can_end_its_own_code_block(text: str) -> None:
    fence, *_, last = fenced(text)
    assert fence == last
    assert fence not in text


def test_long_output_shows_head_and_tail_and_how_much_there_is() -> None:
    item = {**CALL, "output": {"head": "first", "tail": "last", "blob": {"id": "b", "bytes": 99999}}}
    assert output(item) == "first\n… (99999 bytes in all) …\nlast"
    assert output(CALL) == ""


def test_on_the_terminal_an_item_is_short_and_says_when_it_failed() -> None:
    text = plain({**CALL, "output": {"text": "x\x1b[0m"}, "error": "exit 1", "status": "failed"})
    assert text == '[terminal] {"command":"ls"}\n  x\\x1b[0m\nexit 1 (failed)'
    assert plain({"type": "userMessage", "text": "a\nb"}) == "> a\n> b"
    assert "(4000 characters left out)" in shortened("y" * 6000)
