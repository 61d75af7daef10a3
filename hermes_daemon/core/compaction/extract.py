"""The summary without a model: sentences and names taken out of the rows, under the headings a person looks for.

It says of each exchange what was asked, what was run and written, how it ended; beside that the decisions, the errors
that were met, the files and the questions that stand open. Everything in it is a quotation or a count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hermes_daemon.core.compaction.rows import Row
from hermes_daemon.core.compaction.source import Redact, censored
from hermes_daemon.core.history import readable_arguments
from hermes_daemon.core.window import text_tokens
from hermes_protocol.content import Message, ToolCall

NOTE = "(Put together mechanically from the session, without a model.)"

_DECISION = re.compile(
    r"(?i)\b(?:decid\w+|decision|instead of|rather than|must(?: not)?|never|always|from now on|agreed|we(?:'ll| will) use|"
    r"chose|settled on|root cause|turn(?:s|ed) out|confirmed|requirement)\b|因为|决定|必须"
)
_ERROR = re.compile(
    r"(?i)\b(?:error|exception|traceback|failed|failure|fatal|panic|denied|not found|undefined|timed out)\b"
)
_NO_ERROR = re.compile(
    r"(?i)\b(?:0|no|without|zero) (?:errors?|failures?|failed)\b|(?:errors?|failures?|failed)[\"':=\s]{1,3}0\b"
)
_TODO = re.compile(r"(?i)^(?:todo|next(?: steps?)?|remaining|open questions?|still (?:open|to do)|left to do)\b")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_MARKUP = re.compile(r"^[\s#>*\-•|`]+|[\s*`|]+$")
_PATH = re.compile(r"(?:~|\.{1,2})?/?(?:[\w.@+-]+/)*[\w.@+-]+")
_PATH_KEYS = ("path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file")
_COMMAND_KEYS = ("command", "cmd", "code", "script", "query", "sql", "url", "pattern")
_WRITES = re.compile(r"(?i)write|edit|patch|create|replace|insert|append|delete|remove|move|rename|update|save")

_LINE, _ASKED, _ENDED = 240, 200, 320
_KEEP_STEPS, _KEEP_DECISIONS, _KEEP_ERRORS, _KEEP_FILES, _KEEP_OPEN = 300, 40, 12, 60, 8


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One exchange: what was asked, what was done, how it ended."""

    asked: str
    done: tuple[str, ...]
    ended: str


class Extract(msgspec.Struct, frozen=True):
    """What was taken out so far. `carried` is a summary a model wrote before the first mechanical one. `files` maps a
    path to what was done with it (read, written). `steps_before` counts older steps that are no longer kept."""

    carried: str = ""
    steps_before: int = 0
    steps: tuple[Step, ...] = ()
    decisions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    files: dict[str, str] = {}
    open_questions: tuple[str, ...] = ()


def extracted(before: Extract, rows: Sequence[Row], redact: Redact) -> Extract:
    """The extract with these rows taken in; lists keep their newest entries."""
    steps = list(before.steps)
    decisions, errors = list(before.decisions), list(before.errors)
    files = dict(before.files)
    open_questions: list[str] = list(before.open_questions)
    for asked, answer in _turns(rows):
        done: list[str] = []
        for message in answer:
            if message.role == "assistant":
                text = censored(message.text, redact)
                decisions += (line for line in _sentences(text) if _DECISION.search(line))
                done += filter(None, (_deed(call, files, redact) for call in message.calls))
            else:
                errors += _errors(message, redact)
        question = censored(asked, redact)
        decisions += (line for line in _sentences(question) if _DECISION.search(line))
        last = next((m.text for m in reversed(answer) if m.role == "assistant" and m.text.strip()), "")
        ended = _sentences(censored(last, redact))
        if asked or done or ended:
            steps.append(Step(_first(question, _ASKED), _shortened(done), _outcome(ended)))
        if asked or ended:  # what was open before was answered, or overtaken, by this exchange
            open_questions = [line for line in ended if line.endswith(("?", "？")) or _TODO.match(line)]
    return Extract(
        before.carried,
        before.steps_before + max(len(steps) - _KEEP_STEPS, 0),
        tuple(steps[-_KEEP_STEPS:]),
        _newest(decisions, _KEEP_DECISIONS),
        _newest(errors, _KEEP_ERRORS),
        dict(list(files.items())[-_KEEP_FILES:]),
        tuple(open_questions[-_KEEP_OPEN:]),
    )


def rendered(extract: Extract, budget: int) -> str:
    """The extract as text of at most about `budget` tokens. The newest steps are told in full, older ones shorter;
    what had to be left out is counted."""
    fixed = [NOTE]
    if extract.carried:
        fixed.append("## Earlier\n" + _fitting(extract.carried, budget // 3))
    fixed += _section("Decisions and constraints", extract.decisions, budget // 5)
    fixed += _section("Errors met", extract.errors, budget // 10)
    fixed += _section("Files", [f"{path} ({how})" for path, how in extract.files.items()], budget // 8)
    fixed += _section("Open questions", extract.open_questions, budget // 10)
    left = max(budget - sum(map(text_tokens, fixed)) - 10, budget // 4)
    return "\n\n".join([fixed[0], *_log(extract, left), *fixed[1:]])


def _turns(rows: Iterable[Row]) -> list[tuple[str, list[Message]]]:
    """The rows as (what was asked, what followed)."""
    turns: list[tuple[str, list[Message]]] = []
    for row in rows:
        if row.kind != "said" or row.message.role == "system":
            continue
        if row.message.role == "user":
            if turns and not turns[-1][1]:
                turns[-1] = (f"{turns[-1][0]}\n{row.message.text}", [])
            else:
                turns.append((row.message.text, []))
        else:
            if not turns:
                turns.append(("", []))
            turns[-1][1].append(row.message)
    return turns


def _deed(call: ToolCall, files: dict[str, str], redact: Redact) -> str:
    """A call in a few words; notes the file it names."""
    arguments: dict[str, Any] = readable_arguments(call.arguments) or {}
    flat = {key: value for key, value in arguments.items() if isinstance(value, str | int | float | bool)}
    command = next((str(flat[key]) for key in _COMMAND_KEYS if flat.get(key)), "")
    path = next((str(flat[key]) for key in _PATH_KEYS if flat.get(key)), "")
    if path and _PATH.fullmatch(path):
        how = "written" if _WRITES.search(call.name) or _WRITES.search(command[:12]) else "read"
        files[path] = "written" if files.pop(path, "") == "written" else how
    if command or path:
        what = " ".join(filter(None, (command, path)))
    else:
        what = ", ".join(f"{key}={value}" for key, value in flat.items()) or call.arguments
    return f"{call.name}: {_cut(' '.join(censored(what, redact).split()), 140)}"


def _errors(message: Message, redact: Redact) -> list[str]:
    found: list[str] = []
    for result in message.results:
        lines = [line for line in result.text.splitlines() if _ERROR.search(line) and not _NO_ERROR.search(line)]
        short = [line for line in lines if len(line) < 400]
        if result.is_error and not short:
            short = result.text.strip().splitlines()[:1]
        # The last line of a traceback says what it was; the first ones where it was found.
        found += [_cut(_plain(censored(line, redact)), _LINE) for line in short[-1:]]
    return found


def _sentences(text: str) -> list[str]:
    lines = (_plain(piece) for piece in _SENTENCE.split(_without_code(text)))
    return [_cut(line, _LINE) for line in lines if len(line) >= 12 or line.endswith(("?", "？"))]


def _without_code(text: str) -> str:
    return "\n".join(text.split("```")[::2]) if "```" in text else text


def _plain(line: str) -> str:
    return _MARKUP.sub("", line)


def _outcome(sentences: Sequence[str]) -> str:
    """How an exchange ended: the first sentence of its last text and, when they differ, the last one."""
    if not sentences:
        return ""
    ends = [sentences[0]] if len(sentences) == 1 else [sentences[0], sentences[-1]]
    return _cut(" … ".join(ends), _ENDED)


def _shortened(done: Sequence[str]) -> tuple[str, ...]:
    """The deeds of one exchange: repeated ones counted, at most ten, the middle left out."""
    counts: dict[str, int] = {}
    for deed in done:
        counts[deed] = counts.get(deed, 0) + 1
    lines = [f"{deed} ({count} times)" if count > 1 else deed for deed, count in counts.items()]
    return tuple(lines if len(lines) <= 10 else [*lines[:4], f"[{len(lines) - 9} more calls]", *lines[-5:]])


def _log(extract: Extract, budget: int) -> list[str]:
    steps, before = extract.steps, extract.steps_before
    full: list[str] = []
    used = 0
    at = len(steps)
    for share in (0.7, 1.0):  # seven tenths for steps in full, the rest for older ones in one line each
        while at > 0:
            text = _told(before + at, steps[at - 1], brief=share == 1.0)
            size = text_tokens(text) + 1
            if used + size > budget * share:
                break
            full.append(text)
            used += size
            at -= 1
    if before + at > 0:
        full.append(f"[{before + at} earlier steps are not listed here; the session still holds them]")
    return ["## What was done\n" + "\n".join(reversed(full))] if full else []


def _told(number: int, step: Step, *, brief: bool) -> str:
    asked = f"asked: {step.asked}" if step.asked else "went on"
    if brief:
        return f"{number}. {_cut(asked, 90)} → {_cut(step.ended, 110) or 'no closing words'}"
    lines = [f"{number}. {asked}", *(f"   - {deed}" for deed in step.done)]
    if step.ended:
        lines.append(f"   → {step.ended}")
    return "\n".join(lines)


def _section(title: str, lines: Sequence[str], budget: int) -> list[str]:
    """The newest lines that fit, in their order."""
    kept: list[str] = []
    used = 0
    for line in reversed(lines):
        used += text_tokens(line) + 2
        if used > budget:
            break
        kept.append(f"- {line}")
    return [f"## {title}\n" + "\n".join(reversed(kept))] if kept else []


def _fitting(text: str, budget: int) -> str:
    """Whole lines from the start of the text; the cut is said."""
    used = 0
    kept: list[str] = []
    for line in text.splitlines():
        used += text_tokens(line) + 1
        if used > budget:
            kept.append("[cut here]")
            break
        kept.append(line)
    return "\n".join(kept)


def _first(text: str, most: int) -> str:
    """The beginning of a text as one line."""
    return _cut(" ".join(text.split()), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _newest(lines: Iterable[str], most: int) -> tuple[str, ...]:
    """The last different lines, in order."""
    seen = dict.fromkeys(reversed(list(lines)))
    return tuple(reversed(list(seen)[:most]))
