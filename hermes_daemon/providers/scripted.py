"""The provider whose models are little scripts: for demos, tests, benches and stories. Real, shipped, no network.

Models (`scripted/` + one of these; parameters as in a URL query):

- `echo`                              answers with the user's text, word by word
- `words?n=1000&delay_ms=0`           n one-word deltas: "word0 word1 …"
- `tool?name=terminal&args={…}`       calls the tool (`args` is JSON, URL-encoded), then answers with its result's text;
                                      `rounds=3` calls it in three rounds first
- `file:PATH`                         a YAML file of rounds, its path absolute: hermes_daemon.providers.script
- `fail?kind=rate&times=2`            fails so often, then answers "recovered", and so again in the next turn; also
                                      `after=3` (deltas shown before it), `retry_after=0.5`, `message=…`,
                                      `retryable=false`
- `hang?text=…`                       shows the text and never ends

Every one also takes `context=4000`: a window of so many tokens, beyond which it fails as an endpoint would.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from hermes_daemon.core.ports import (
    CallDelta,
    Chunk,
    FailureKind,
    ModelInfo,
    ProviderFailure,
    ReasoningDelta,
    Reply,
    Request,
    TextDelta,
)
from hermes_daemon.core.window import request_tokens, text_tokens
from hermes_daemon.providers.script import Call, Fault, Round, Script, ScriptError, load_script, retryable_kind
from hermes_protocol.content import Message, Part, ReasoningPart, TextPart, ToolCall, Usage

BREATH = 64  # deltas between two looks of the event loop at other work, when nothing else makes the script wait
MOST_WORDS = 1_000_000
MODELS = ("echo", "words", "tool", "fail", "hang")


class Scripted:
    """ports.Provider for the models above. Counts of failures already given are kept per session and script."""

    def __init__(self) -> None:
        self._words: dict[int, tuple[tuple[TextDelta, ...], str]] = {}
        self._scripts: dict[str, tuple[tuple[int, int], Script]] = {}
        self._failed: dict[tuple[str, str, int], int] = {}

    @property
    def name(self) -> str:
        return "scripted"

    def info(self, name: str) -> ModelInfo | None:
        """What is known of `name` (without `scripted/`), None for a name that is no script."""
        base, params = _parse(name)
        if base not in MODELS and not name.startswith("file:"):
            return None
        context = params.get("context", "")
        length = int(context) if context.isdecimal() and int(context) > 0 else 128_000
        return ModelInfo(f"scripted/{name}", name, "scripted", context_length=length, note="a script, not a model")

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """See ports.Provider."""
        name = request.model.removeprefix("scripted/")
        base, params = _parse(name)
        if base == "words":
            return self._stream_words(name, params, request)
        return self._stream_round(name, base, params, request)

    async def close(self) -> None:
        """Nothing is held."""

    async def _stream_words(
        self, name: str, params: Mapping[str, str], request: Request
    ) -> AsyncGenerator[Chunk, None]:
        prompt = _prompt_tokens(name, params, request)
        count = min(_number(params, "n", 1000), MOST_WORDS)
        delay = _number(params, "delay_ms", 0) / 1000
        if count not in self._words:
            if len(self._words) >= 8:
                self._words.clear()
            words = [f"word{i}" if i == 0 else f" word{i}" for i in range(count)]
            self._words[count] = tuple(map(TextDelta, words)), "".join(words)
        deltas, text = self._words[count]
        left = BREATH
        for delta in deltas:
            if delay:
                await asyncio.sleep(delay)
            elif (left := left - 1) == 0:
                left = BREATH
                await asyncio.sleep(0)
            yield delta
        yield Reply(Message("assistant", (TextPart(text),)), "stop", Usage(prompt, count))

    async def _stream_round(
        self, name: str, base: str, params: Mapping[str, str], request: Request
    ) -> AsyncGenerator[Chunk, None]:
        prompt = _prompt_tokens(name, params, request)
        round_, number = self._round(name, base, params, request)
        fault = round_.error
        if fault is not None and not self._fails(request.session_id, name, number, fault):
            fault = None
        for position, delta in enumerate(_deltas(round_)):
            if fault is not None and position >= fault.after:
                break
            if round_.delay_ms:
                await asyncio.sleep(round_.delay_ms / 1000)
            elif position % BREATH == BREATH - 1:
                await asyncio.sleep(0)
            yield delta
        if fault is not None:
            message = fault.message or f"scripted/{name}: a scripted failure."
            raise _failure(fault.kind, message, retryable=fault.retryable, retry_after=fault.retry_after)
        if round_.hang:
            await asyncio.Event().wait()
        yield _reply(round_, prompt)

    def _round(self, name: str, base: str, params: Mapping[str, str], request: Request) -> tuple[Round, int]:
        """The round to play and its number, for counting its failures."""
        if name.startswith("file:"):
            script = self._script(name.partition("?")[0].removeprefix("file:"))
            return script.round(request.messages)
        if base == "echo":
            return Round(text=_last_user_text(request.messages), delay_ms=_number(params, "delay_ms", 0)), 0
        if base == "hang":
            return Round(text=params.get("text", ""), hang=True), 0
        if base == "fail":
            return Round(text="recovered", error=_fault(params)), 0
        if base == "tool":
            return _tool_round(params, request.messages), 0
        known = ", ".join(f"scripted/{model}" for model in MODELS)
        raise _failure("model_missing", f"scripted/{name} is no script. There are {known} and scripted/file:PATH.")

    def _script(self, path: str) -> Script:
        path = os.path.expanduser(path)
        if not os.path.isabs(path):  # the daemon's own folder is nobody's business
            raise _failure("bad_request", f"scripted/file:{path} is no absolute path.")
        try:
            stamp, script = load_script(path, self._scripts.get(path))
        except ScriptError as error:
            raise _failure("bad_request", str(error)) from None
        self._scripts[path] = (stamp, script)
        return script

    def _fails(self, session: str, name: str, number: int, fault: Fault) -> bool:
        key = (session, name, number)
        given = self._failed.get(key, 0)
        if given >= fault.times > 0:
            self._failed.pop(key, None)
            return False
        self._failed[key] = given + 1
        return True


def _tool_round(params: Mapping[str, str], messages: tuple[Message, ...]) -> Round:
    results: list[str] = []
    for message in reversed(messages):
        if message.role == "user":
            break
        results.extend(result.text for result in message.results)
    if len(results) >= _number(params, "rounds", 1):
        return Round(text=results[0])
    text = params.get("args", "{}")
    try:
        args: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        args = text  # broken arguments are a thing to test, too
    return Round(calls=(Call(params.get("name", "terminal"), args),))


def _prompt_tokens(name: str, params: Mapping[str, str], request: Request) -> int:
    prompt = request_tokens(request.messages, request.system, request.tools)
    context = _number(params, "context", 0)
    if context and prompt > context:
        raise _failure("context_overflow", f"scripted/{name}: {prompt} tokens, maximum context length {context}.")
    return prompt


def _deltas(round_: Round) -> Iterator[Chunk]:
    for piece in _pieces(round_.reasoning):
        yield ReasoningDelta(piece)
    for piece in _pieces(round_.text):
        yield TextDelta(piece)
    for index, call in enumerate(round_.calls):
        yield CallDelta(index, call.name, len(call.text()))


def _reply(round_: Round, prompt: int) -> Reply:
    parts: list[Part] = []
    if round_.reasoning:
        parts.append(ReasoningPart(round_.reasoning))
    if round_.text:
        parts.append(TextPart(round_.text))
    written = text_tokens(round_.text) + text_tokens(round_.reasoning)
    for call in round_.calls:
        parts.append(ToolCall(call.fresh_id(), call.name, call.text()))
        written += text_tokens(call.text())
    usage = Usage(prompt, written)
    if round_.usage is not None:
        usage = Usage(round_.usage.input, round_.usage.output)
    return Reply(Message("assistant", tuple(parts)), round_.stop or ("tool_calls" if round_.calls else "stop"), usage)


def _pieces(text: str) -> list[str]:
    """The text cut before each word, white space kept: joined again they are the text."""
    pieces: list[str] = []
    start = 0
    for at in range(1, len(text)):
        if text[at].isspace() and not text[at - 1].isspace():
            pieces.append(text[start:at])
            start = at
    return [*pieces, text[start:]] if text else []


def _parse(name: str) -> tuple[str, dict[str, str]]:
    base, _, query = name.partition("?")
    return base, dict(parse_qsl(query, keep_blank_values=True))


def _number(params: Mapping[str, str], name: str, default: int) -> int:
    text = params.get(name)
    if text is None:
        return default
    if not text.isdecimal():
        raise _failure("bad_request", f"scripted: {name}={text!r} is no whole number.")
    return int(text)


def _fault(params: Mapping[str, str]) -> Fault:
    raw: dict[str, Any] = {"kind": params.get("kind", "rate"), "message": params.get("message", "")}
    raw |= {"times": _number(params, "times", 1), "after": _number(params, "after", 0)}
    raw["retryable"] = params.get("retryable", str(retryable_kind(raw["kind"])).lower()) == "true"
    if "retry_after" in params:
        raw["retry_after"] = params["retry_after"]
    try:
        return msgspec.convert(raw, Fault, strict=False)
    except msgspec.ValidationError as error:
        raise _failure("bad_request", f"scripted/fail: {error}") from None


def _last_user_text(messages: tuple[Message, ...]) -> str:
    return next((message.text for message in reversed(messages) if message.role == "user"), "")


def _failure(
    kind: FailureKind, message: str, *, retryable: bool = False, retry_after: float | None = None
) -> ProviderFailure:
    return ProviderFailure(kind, message, provider="scripted", retryable=retryable, retry_after=retry_after)
