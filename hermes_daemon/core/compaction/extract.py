"""The summary without a model: sentences and names taken out of the rows, under the headings a person looks for.

It says of each exchange what was asked, what was run and written, how it ended; beside that the decisions, the errors
that were met, the files and the questions that stand open. Everything in it is a quotation or a count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from hermes_daemon.core.compaction.rows import Row
from hermes_daemon.core.compaction.source import Redact, censored
from hermes_daemon.core.history import readable_arguments
from hermes_daemon.core.window import text_tokens
from hermes_protocol.content import Message, ToolCall

NOTE = "(Put together mechanically from the session, without a model.)"

_DECISION = re.compile(
    r"(?i)\b(?:decid\w+|decision|instead of|rather than|from now on|agreed|we(?:'ll| will) use|chose|settled on|"
    r"root cause|turn(?:s|ed) out|confirmed|conclusion)\b|决定|结论|原因是"
)
_DEMAND = re.compile(
    r"(?i)\b(?:must|never|always|do(?:n['’]t| not)|should(?: not|n['’]t)?|only|require\w*)\b|必须|不要|只能"
)
_ERROR = re.compile(
    r"(?i)\b(?:\w*error|\w*exception|failed|failure|fatal|panic|denied|not found|undefined|timed out)\b"
)
_NO_ERROR = re.compile(
    r"(?i)\b(?:0|no|without|zero) (?:errors?|failures?|failed)\b|(?:errors?|failures?|failed)[\"':=\s]{1,3}0\b"
)
_CODE = re.compile(r"[;{},\\\\]\s*$|^\s*\d+[→:|]|[\"']\s*:\s*[\"']|[(=]\s*f?[\"']|^\s*(?://|\*|#)")
_LOOKS = re.compile(r"(?:^|&&|\||;)\s*(?:cat|sed -n|head|tail|less|grep|rg|find|ls|git (?:diff|show|log))\b")
_TODO = re.compile(r"(?i)^(?:todo|next(?: steps?)?|remaining|open questions?|still (?:open|to do)|left to do)\b")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_MARKUP = re.compile(r"^[\s#>*\-•|`]+|[\s*`|]+$")
_PATH = re.compile(r"(?:~|\.{1,2})?/?(?:[\w.@+-]+/)*[\w.@+-]+")
_PATH_KEYS = ("path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file")
_COMMAND_KEYS = ("command", "cmd", "code", "script", "query", "sql", "url", "pattern")
_RUN_KEYS = ("command", "cmd", "code", "script", "sql")
_WRITES = re.compile(r"(?i)write|edit|patch|create|replace|insert|append|delete|remove|move|rename|update|save")

_LINE, _ASKED, _ENDED, _DEEDS = 240, 200, 320, 10
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
        done: list[tuple[int, str]] = []
        commands = {call.call_id: _command(call) for message in answer for call in message.calls}
        for message in answer:
            if message.role == "assistant":
                text = censored(message.text, redact)
                decisions += (line for line in _sentences(text) if _DECISION.search(line) and not line.endswith(":"))
                done += (_deed(call, files, redact) for call in message.calls)
            else:
                errors += _errors(message, commands, redact)
        question = censored(asked, redact)
        decisions += (f"user: {line}" for line in _sentences(question) if _DEMAND.search(line))
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
    files = sorted(extract.files.items(), key=lambda item: item[1] == "written")  # what was only read goes first
    fixed += _section("Files", [f"{path} ({how})" for path, how in files], budget // 8)
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


def _command(call: ToolCall) -> str:
    """What a call runs, when its output is not merely a look at something that lies there; else an empty text."""
    arguments: dict[str, Any] = readable_arguments(call.arguments) or {}
    text = next((value for key in _RUN_KEYS if isinstance(value := arguments.get(key), str)), "")
    return "" if _LOOKS.search(text) else text


def _deed(call: ToolCall, files: dict[str, str], redact: Redact) -> tuple[int, str]:
    """A call in a few words and its weight (2 writes, 1 runs, 0 looks); notes the file it names."""
    arguments: dict[str, Any] = readable_arguments(call.arguments) or {}
    flat = dict(_scalars(arguments))
    command = next((str(flat[key]) for key in _COMMAND_KEYS if flat.get(key)), "")
    path = next((str(flat[key]) for key in _PATH_KEYS if flat.get(key)), "")
    writes = bool(_WRITES.search(call.name) or _WRITES.fullmatch(command))
    if path and _PATH.fullmatch(path):
        before = files.pop(path, "")  # moves to the end: the newest
        files[path] = "written" if writes or before == "written" else "read"
    if command or path:
        what = " ".join(filter(None, (command, path)))
    else:
        what = ", ".join(f"{key}={_first(str(value), 60)}" for key, value in flat.items()) or ", ".join(arguments)
    weight = 2 if writes else 1 if _command(call) or not (command or path) else 0
    return weight, f"{call.name}: {_first(censored(what, redact), 140)}"


def _scalars(arguments: dict[str, Any], depth: int = 0) -> Iterator[tuple[str, str | int | float | bool]]:
    """The plain values of a call's arguments and of the objects directly within."""
    for key, value in arguments.items():
        if isinstance(value, str | int | float | bool):
            yield key, value
        elif isinstance(value, dict) and depth == 0:
            yield from _scalars(value, 1)


def _errors(message: Message, commands: dict[str, str], redact: Redact) -> list[str]:
    """Error lines of failed calls and of commands that ran something. What a file or a search shows is not an error."""
    found: list[str] = []
    for result in message.results:
        told = result.is_error or result.text[:24].lower().startswith(("error", "failed", "traceback"))
        if not told and not commands.get(result.call_id):
            continue
        lines = [line for line in result.text.splitlines() if _ERROR.search(line) and not _NO_ERROR.search(line)]
        short = [line for line in lines if len(line) < 400 and line.rstrip()[-1] != ":" and not _CODE.search(line)]
        if told and not short:
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


def _shortened(done: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """The deeds of one exchange in order, repeated ones counted; of more than ten the weightiest and newest."""
    counts: dict[str, int] = {}
    weights: dict[str, int] = {}
    for weight, deed in done:
        counts[deed] = counts.get(deed, 0) + 1
        weights[deed] = weight
    order = list(counts)
    chosen = sorted(range(len(order)), key=lambda at: (weights[order[at]], at), reverse=True)[:_DEEDS]
    lines = [order[at] + (f" ({counts[order[at]]} times)" if counts[order[at]] > 1 else "") for at in sorted(chosen)]
    more = len(order) - len(lines)
    return (*lines, f"[{more} more calls]") if more else tuple(lines)


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
        return f"{number}. {_cut(asked, 80)} → {_cut(step.ended, 160) or 'no closing words'}"
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
