from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from hermes_daemon.core.ports import CallDelta, Chunk, ProviderFailure, ReasoningDelta, Reply, Request, TextDelta
from hermes_daemon.providers.script import ScriptError, parse_script
from hermes_daemon.providers.scripted import Scripted
from hermes_protocol.content import Message, TextPart, ToolCall, ToolResult, Usage
from tests.support.model_streams import asking, collect


def user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def ask(provider: Scripted, model: str, *messages: Message) -> list[Chunk]:
    async def run() -> list[Chunk]:
        request = Request(model, "", messages or (user("hello there"),), session_id="s1")
        return [chunk async for chunk in provider.stream(request)]

    return asyncio.run(run())


def last(chunks: list[Chunk]) -> Reply:
    assert isinstance(chunks[-1], Reply)
    return chunks[-1]


def answered(reply: Reply, text: str) -> tuple[Message, ...]:
    return (reply.message, *(Message("tool", (ToolResult(call.call_id, text),)) for call in reply.message.calls))


def test_echo_says_what_the_user_said_word_by_word() -> None:
    chunks = ask(Scripted(), "echo", user("first"), Message("assistant", (TextPart("x"),)), user(" a  b\nc "))
    assert chunks[:-1] == [TextDelta(" a"), TextDelta("  b"), TextDelta("\nc"), TextDelta(" ")]
    assert last(chunks).message.text == " a  b\nc "
    assert last(chunks).usage is not None


def test_words_are_as_many_deltas_and_counted_as_tokens() -> None:
    provider = Scripted()
    for _ in range(2):
        chunks = ask(provider, "scripted/words?n=200")
        assert len(chunks) == 201
        assert chunks[:2] == [TextDelta("word0"), TextDelta(" word1")]
        assert last(chunks).message.text.endswith(" word199")
        assert last(chunks).usage == Usage(6, 200)
    assert len(ask(provider, "words?n=0")) == 1


def test_tool_calls_once_and_then_answers_with_the_result() -> None:
    provider = Scripted()
    model = "tool?name=terminal&args=" + quote('{"command": "ls"}')
    first = last(ask(provider, model))
    assert first.stop == "tool_calls"
    assert [(c.name, c.arguments) for c in first.message.calls] == [("terminal", '{"command":"ls"}')]
    second = last(ask(provider, model, user("x"), *answered(first, "a.txt")))
    assert (second.message.text, second.stop) == ("a.txt", "stop")
    again = last(ask(provider, model, user("x"), *answered(first, "a.txt"), second.message, user("y")))
    assert again.message.calls[0].call_id != first.message.calls[0].call_id


def test_tool_may_ask_for_several_rounds_and_write_broken_arguments() -> None:
    provider = Scripted()
    first = last(ask(provider, "tool?name=t&args=%7B%22a&rounds=2"))
    assert first.message.calls[0].arguments == '{"a'
    second = last(ask(provider, "tool?name=t&args=%7B%22a&rounds=2", user("x"), *answered(first, "r")))
    assert second.message.calls


def test_fail_fails_so_often_and_recovers_and_so_again() -> None:
    provider = Scripted()
    for _ in range(2):
        for _ in range(2):
            with pytest.raises(ProviderFailure, match="scripted failure") as caught:
                ask(provider, "fail?kind=rate&times=2&retry_after=0.5")
            assert (caught.value.kind, caught.value.retryable, caught.value.retry_after) == ("rate", True, 0.5)
        assert last(ask(provider, "fail?kind=rate&times=2&retry_after=0.5")).message.text == "recovered"


def test_fail_may_show_something_first_and_take_any_kind() -> None:
    chunks, failure = asyncio.run(collect(Scripted(), asking("x", "fail?kind=auth&after=1&message=no")))
    assert chunks == [TextDelta("recovered")]
    assert failure is not None
    assert (failure.kind, failure.retryable, failure.message) == ("auth", False, "no")


def test_hang_shows_its_text_and_ends_only_when_closed() -> None:
    async def run() -> None:
        stream = Scripted().stream(Request("hang?text=wait", "", ()))
        assert await anext(stream) == TextDelta("wait")
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await stream.aclose()

    asyncio.run(run())


def test_a_window_may_be_set_and_overflows_like_a_real_one() -> None:
    provider = Scripted()
    info = provider.info("echo?context=50")
    assert info is not None
    assert info.context_length == 50
    with pytest.raises(ProviderFailure) as caught:
        ask(provider, "echo?context=50", user("x" * 400))
    assert caught.value.kind == "context_overflow"


@pytest.mark.parametrize(
    ("model", "kind", "words"),
    [
        ("nonsense", "model_missing", "scripted/echo"),
        ("words?n=many", "bad_request", "n='many'"),
        ("fail?kind=odd", "bad_request", "kind"),
        ("file:/no/such.yaml", "bad_request", "/no/such.yaml"),
        ("file:some/where.yaml", "bad_request", "absolute"),
    ],
)
def test_a_model_that_is_no_script_says_what_is_wrong(model: str, kind: str, words: str) -> None:
    with pytest.raises(ProviderFailure, match=words) as caught:
        ask(Scripted(), model)
    assert caught.value.kind == kind


# --- a file of rounds --------------------------------------------------------------------------------------------

SCRIPT = """
rounds:
  - reasoning: look first
    text: I will look.
    calls:
      - {name: read_file, args: {path: a.txt}}
      - {name: terminal, args: '{"broken'}
  - text: Done.
    usage: {input: 7, output: 2}
    stop: length
  - when: {contains: again}
    text: not reached in the first turn
"""


def test_a_file_is_played_round_by_round(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SCRIPT)
    provider = Scripted()
    model = f"scripted/file:{path}"
    chunks = ask(provider, model)
    assert [type(chunk) for chunk in chunks[:6]] == [ReasoningDelta] * 2 + [TextDelta] * 3 + [CallDelta]
    first = last(chunks)
    assert [(c.name, c.arguments) for c in first.message.calls] == [
        ("read_file", '{"path":"a.txt"}'),
        ("terminal", '{"broken'),
    ]
    second = last(ask(provider, model, user("x"), *answered(first, "r")))
    assert (second.message.text, second.stop, second.usage) == ("Done.", "length", Usage(7, 2))
    with pytest.raises(ProviderFailure, match="2 rounds for this turn and was asked for number 3"):
        ask(provider, model, user("x"), *answered(first, "r"), second.message)


def test_rounds_are_chosen_by_the_turns_text_and_number(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("- {when: {contains: red}, text: r}\n- {when: {turn: 2}, text: two}\n- {text: any}\n")
    provider, model = Scripted(), f"file:{path}"
    assert last(ask(provider, model, user("red one"))).message.text == "r"
    assert last(ask(provider, model, user("blue"))).message.text == "any"
    assert last(ask(provider, model, user("blue"), Message("assistant", (ToolCall("c", "t", ""),)), user("x"))
                ).message.text == "two"  # fmt: skip


def test_a_failing_round_plays_once_the_failures_are_given(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("- {error: {kind: overload, retry_after: 0.1}, text: here}\n")
    provider, model = Scripted(), f"file:{path}"
    with pytest.raises(ProviderFailure) as caught:
        ask(provider, model)
    assert caught.value.retryable
    assert last(ask(provider, model)).message.text == "here"


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    provider, model = Scripted(), f"file:{path}"
    for text in ("one", "another"):
        path.write_text(f"- text: {text}\n")
        assert last(ask(provider, model)).message.text == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- text: [\n", "my.yaml, line 2, column 1"),
        ("just text", "expected a list of rounds"),
        ("- {txt: hi}", r"unknown field `txt`.*\$\[0\]"),
        ("- {text: 4}", r"\$\[0\]\.text"),
        ("- {error: {kind: sad}}", r"\$\[0\]\.error\.kind"),
        ("- {calls: [{args: {}}]}", "name"),
        ("- {error: {kind: rate, times: -1}}", r"\$\[0\]\.error\.times"),
    ],
)
def test_a_file_that_is_no_script_names_the_place(text: str, words: str) -> None:
    with pytest.raises(ScriptError, match=words):
        parse_script(text, "my.yaml")
