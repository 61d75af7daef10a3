"""The laws of a conversation, and the repair of one that breaks them. Pure; messages in, messages out.

The laws are what every provider accepts, so a history that keeps them can be sent anywhere:

1. `system` messages stand only at the head.
2. Only assistants hold calls, only `tool` messages hold results (exactly one each), only users hold images.
3. Every call is answered exactly once, by the `tool` messages right behind its message, in any order; no result
   stands anywhere else.
4. Call ids are unique in the whole history and not empty.
5. The arguments of a call are the text of a JSON object.
6. A user message holds more than white space, an assistant message too, or a call.

`repair` makes the view that is sent. The stored rows stay as they are, so that a read-out shows the raw arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes_protocol.content import ImagePart, Message, Part, ReasoningPart, TextPart, ToolCall, ToolResult

NO_LONGER_AVAILABLE = "The result of this call is no longer available."
ORPHAN_RESULT = "[Result of an earlier tool call that is no longer part of this conversation]"
ECHO_CHARS = 800

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_object(arguments: str) -> bool:
    """Whether the raw arguments are the text of a JSON object."""
    try:
        _OBJECT.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def readable_arguments(arguments: str) -> dict[str, Any] | None:
    """The arguments for people: the object, {} for an empty text, None when it does not parse (show the raw text)."""
    if not arguments.strip():
        return {}
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def sendable_arguments(arguments: str) -> str:
    """The arguments in a form every provider takes: themselves when they are an object, "{}" for an empty text.

    A JSON string that holds an object is unwrapped once. Anything else (cut off, not JSON, not an object) is sent as
    an object that quotes the text, up to 800 characters, so that the model sees what it wrote and nothing is invented.
    """
    if is_object(arguments):
        return arguments
    if not arguments.strip():
        return "{}"
    try:
        inner = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        inner = None
    if isinstance(inner, str) and is_object(inner):
        return inner
    quoted = arguments.encode("utf-8", "replace").decode()
    if len(quoted) > ECHO_CHARS:
        quoted = f"{quoted[:ECHO_CHARS]}… ({len(quoted)} characters)"
    return msgspec.json.encode({"invalid_arguments": quoted}).decode()


def check(messages: Sequence[Message]) -> list[str]:
    """The laws this history breaks, one sentence each with the index of the message. Empty: any provider takes it."""
    wrong: list[str] = []
    seen: set[str] = set()
    open_calls: set[str] = set()
    head = True
    for index, message in enumerate(messages):
        role = message.role
        if open_calls and role != "tool":
            wrong.append(f"message {index}: calls before it have no result: {', '.join(sorted(open_calls))}")
            open_calls = set()
        if role != "system":
            head = False
        elif not head:
            wrong.append(f"message {index}: a system message that is not at the head")
        if role == "tool" and len(message.parts) != 1:
            wrong.append(f"message {index}: a tool message without exactly one result")
        if role in ("user", "assistant") and _is_empty(message.parts):
            wrong.append(f"message {index}: is empty")
        allowed = _ALLOWED[role]
        for part in message.parts:
            if type(part) not in allowed:
                wrong.append(f"message {index}: holds parts that a {role} message cannot hold")
            elif type(part) is ToolCall:
                wrong.extend(f"message {index}: {fault}" for fault in _call_faults(part, seen))
                seen.add(part.call_id)
                open_calls.add(part.call_id)
            elif type(part) is ToolResult:
                if part.call_id not in open_calls:
                    wrong.append(f"message {index}: a result for {part.call_id!r}, which no call before it asks for")
                open_calls.discard(part.call_id)
    if open_calls:
        wrong.append(f"the last calls have no result: {', '.join(sorted(open_calls))}")
    return wrong


def cut_points(messages: Sequence[Message]) -> list[int]:
    """The indexes where a history that keeps the laws may be cut: never between a call and its results."""
    return [index for index, message in enumerate(messages) if message.role != "tool"] + [len(messages)]


def is_context(messages: Sequence[Message], index: int) -> bool:
    """True for what plugins added to the user's message right before it: a row of its own that belongs to that one."""
    row = messages[index]
    if index == 0 or row.role != "user" or row.item_id is not None:
        return False
    before = messages[index - 1]
    return before.role == "user" and (before.item_id is not None or is_context(messages, index - 1))


def joined(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The history as it is sent: context in one message with what it belongs to, a blank line between them. Without
    any the rows are the caller's own."""
    sent: list[Message] = []
    for index, message in enumerate(messages):
        if is_context(messages, index):
            parts = (*sent[-1].parts, *(_behind(part) for part in message.parts))
            sent[-1] = msgspec.structs.replace(sent[-1], parts=parts)
        else:
            sent.append(message)
    return tuple(sent)


def _behind(part: Part) -> Part:
    return TextPart(f"\n\n{part.text}") if isinstance(part, TextPart) else part


def repair(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """The history made sendable, and one note for each thing that was changed (for the log, not for the model).

    Orphan results become user text, calls without a result are answered "no longer available", repeated call ids get
    a suffix (paired occurrence by occurrence), empty messages go. No text of a user is lost. The result always passes
    `check`; a history that passes it comes back unchanged.
    """
    if not check(messages):
        return tuple(messages), ()
    return _Repair(messages).run()


def _call_faults(call: ToolCall, seen: set[str]) -> list[str]:
    faults: list[str] = []
    if not call.call_id or call.call_id in seen:
        faults.append(f"call id {call.call_id!r} is empty or was used before")
    if not is_object(call.arguments):
        faults.append(f"the arguments of call {call.call_id!r} are not a JSON object")
    return faults


def _is_empty(parts: Sequence[Part]) -> bool:
    for part in parts:
        if isinstance(part, (ImagePart, ToolCall)) or (isinstance(part, TextPart) and not _is_blank(part.text)):
            return False
    return True


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


_ALLOWED: dict[str, tuple[type, ...]] = {
    "system": (TextPart,),
    "user": (TextPart, ImagePart),
    "assistant": (TextPart, ReasoningPart, ToolCall),
    "tool": (ToolResult,),
}


class _Repair:
    """One pass over a history. Results are handed to the calls of the assistant message before them."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._out: list[Message] = []
        self._notes: list[str] = []
        self._taken: set[str] = set()
        # A new id must not meet one that a later message already has.
        self._given = {call.call_id for message in messages for call in message.calls}

    def run(self) -> tuple[tuple[Message, ...], tuple[str, ...]]:
        at = 0
        while at < len(self._messages):
            message = self._messages[at]
            at += 1
            if message.role != "assistant":
                self._plain(message, at - 1)
                continue
            end = at
            while end < len(self._messages) and self._messages[end].role != "assistant":
                end += 1
            at = self._exchange(message, at, end)
        return tuple(self._out), tuple(self._notes)

    def _exchange(self, message: Message, start: int, end: int) -> int:
        """An assistant message and what follows up to the next one: its results first, then the rest in order."""
        index = start - 1
        calls = self._assistant(message, index)
        waiting: dict[str, deque[ToolCall]] = {}
        for original, call in calls:
            waiting.setdefault(original, deque()).append(call)
        answers: dict[str, Message] = {}
        rest: list[tuple[int, Message]] = []
        for position in range(start, end if calls else start):
            row = self._messages[position]
            left: list[Part] = []
            for part in row.parts:
                queue = waiting.get(part.call_id) if row.role == "tool" and isinstance(part, ToolResult) else None
                if queue and isinstance(part, ToolResult):
                    call = queue.popleft()
                    result = msgspec.structs.replace(part, call_id=call.call_id)
                    answers[call.call_id] = msgspec.structs.replace(row, parts=(result,))
                else:
                    left.append(part)
            if left or not row.parts:
                rest.append((position, msgspec.structs.replace(row, parts=tuple(left))))
        for _, call in calls:
            if call.call_id not in answers:
                self._notes.append(f"message {index}: call {call.call_id} had no result; one that says so was put in")
                missing = ToolResult(call.call_id, NO_LONGER_AVAILABLE, is_error=True)
                answers[call.call_id] = Message("tool", (missing,))
        self._out.extend(answers.values())
        for position, row in rest:
            self._plain(row, position)
        return end if calls else start

    def _assistant(self, message: Message, index: int) -> list[tuple[str, ToolCall]]:
        """Put the message out; its calls as (id it had, call as sent)."""
        calls: list[tuple[str, ToolCall]] = []
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                call = self._call(part, index)
                calls.append((part.call_id, call))
                parts.append(call)
            elif isinstance(part, ToolResult):
                parts.append(TextPart(f"{ORPHAN_RESULT}\n{part.text}"))
            elif not isinstance(part, ImagePart):
                parts.append(part)
        if _is_empty(parts):
            self._notes.append(f"message {index}: an assistant message without text and calls was left out")
            return []
        self._out.append(msgspec.structs.replace(message, parts=tuple(parts)))
        return calls

    def _call(self, call: ToolCall, index: int) -> ToolCall:
        arguments = sendable_arguments(call.arguments)
        if arguments != call.arguments and call.arguments.strip():
            self._notes.append(f"message {index}: the arguments of call {call.call_id!r} are no JSON object")
        call_id = call.call_id
        if not call_id or call_id in self._taken:
            call_id = self._fresh(call_id or "call")
            self._notes.append(f"message {index}: call id {call.call_id!r} is empty or not unique; sent as {call_id!r}")
        self._taken.add(call_id)
        return msgspec.structs.replace(call, call_id=call_id, arguments=arguments)

    def _fresh(self, stem: str) -> str:
        number = 2
        while (name := f"{stem}_{number}") in self._given or name in self._taken:
            number += 1
        return name

    def _plain(self, message: Message, index: int) -> None:
        """A system, user or orphaned tool message: what a user may hold stays, results and the rest become text."""
        if message.role == "system" and all(row.role == "system" for row in self._out):
            text = "".join(part.text for part in message.parts if not isinstance(part, ImagePart | ToolCall))
            self._out.append(msgspec.structs.replace(message, parts=(TextPart(text),)))
            return
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                self._notes.append(f"message {index}: the result for {part.call_id!r} has no call; kept as text")
                if part.text.strip():
                    parts.append(TextPart(f"{ORPHAN_RESULT}\n{part.text}"))
            elif isinstance(part, TextPart | ImagePart):
                parts.append(part)
            elif isinstance(part, ReasoningPart):
                parts.append(TextPart(part.text))
        if _is_empty(parts):
            if message.role != "tool":
                self._notes.append(f"message {index}: an empty {message.role} message was left out")
            return
        if message.role == "system":
            self._notes.append(f"message {index}: a system message behind the head is sent as a user's")
        self._out.append(msgspec.structs.replace(message, role="user", parts=tuple(parts)))
