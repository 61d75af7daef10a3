"""A session's items as text for people: plain for the terminal, Markdown for a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes_shell.answer import VISIBLE

Item = dict[str, Any]
SHOWN = 2_000


def plain(item: Item) -> str:
    """One item for the terminal; long output is cut in the middle."""
    form = item.get("type", "?")
    if form == "userMessage":
        text = f"> {said(item)}".replace("\n", "\n> ")
    elif form in ("agentMessage", "reasoning"):
        text = str(item.get("text", ""))
        text = f"({text})" if form == "reasoning" else text
    elif form == "toolCall":
        head = f"[{item.get('name', '?')}] {item.get('title') or item.get('args', '')}"
        text = "\n".join(part for part in (head, *_indented(output(item)), item.get("error") or "") if part)
    else:
        text = _other(item)
    if item.get("status") not in (None, "completed"):
        text += f" ({item['status']})"
    return shortened(text).translate(VISIBLE)


def markdown(session: Item, items: Sequence[Item]) -> str:
    """The whole transcript as a Markdown document."""
    lines = [f"# {session.get('title') or session['sessionId']}", ""]
    for label, key in (("Session", "sessionId"), ("Folder", "cwd"), ("Model", "model"), ("Created", "createdAt")):
        if session.get(key):
            lines.append(f"- {label}: `{session[key]}`")
    for item in items:
        lines += ["", *_markdown_item(item)]
    return "\n".join(lines) + "\n"


def _markdown_item(item: Item) -> list[str]:
    form = item.get("type", "?")
    mark = "" if item.get("status") in (None, "completed") else f" ({item['status']})"
    if form == "userMessage":
        who = (item.get("by") or {}).get("name", "")
        return [f"## User{f' ({who})' if who else ''}", "", said(item)]
    if form == "agentMessage":
        return [f"## Assistant{mark}", "", str(item.get("text", ""))]
    if form == "reasoning":
        return ["<details><summary>Reasoning</summary>", "", str(item.get("text", "")), "", "</details>"]
    if form == "toolCall":
        lines = [f"### Tool `{item.get('name', '?')}`{mark}", "", *fenced(str(item.get("args", "")), "json")]
        if output(item):
            lines += ["", *fenced(output(item))]
        return [*lines, "", f"Error: {item['error']}"] if item.get("error") else lines
    if form == "fileChange" and item.get("diff"):
        return [f"### {item.get('kind', 'changed')} `{item.get('path', '')}`", "", *fenced(str(item["diff"]), "diff")]
    return [f"*{_other(item)}*"]


def fenced(text: str, language: str = "") -> list[str]:
    """`text` as a code block whose fence is longer than any run of backticks inside."""
    longest, run = 0, 0
    for letter in text:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", text.rstrip("\n"), fence]


def said(item: Item) -> str:
    """What a user message says: its text, else the text blocks of its input; images and files by name."""
    if item.get("text"):
        return str(item["text"])
    parts = []
    for block in item.get("input", ()):
        kind = block.get("type")
        parts.append(block.get("text", "") if kind == "text" else f"[{kind}: {block.get('path') or block.get('mime')}]")
    return "\n".join(parts)


def output(item: Item) -> str:
    """A tool's output as far as the item holds it: whole, or head and tail around what was left out."""
    found = item.get("output") or {}
    if found.get("text") is not None:
        return str(found["text"])
    if found.get("head") is None and found.get("tail") is None:
        return ""
    left_out = (found.get("blob") or {}).get("bytes")
    middle = f"\n… ({left_out} bytes in all) …\n" if left_out else "\n…\n"
    return f"{found.get('head') or ''}{middle}{found.get('tail') or ''}"


def shortened(text: str) -> str:
    """`text` with its middle left out when it is long."""
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]}\n… ({len(text) - SHOWN} characters left out) …\n{text[-half:]}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _other(item: Item) -> str:
    form = item.get("type", "?")
    if form == "fileChange":
        return (
            f"{item.get('kind', 'changed')} {item.get('path', '')} (+{item.get('added', 0)} -{item.get('removed', 0)})"
        )
    if form == "plan":
        return "plan: " + "; ".join(
            f"{row.get('content', '')} [{row.get('status', '')}]" for row in item.get("entries", ())
        )
    if form == "compaction":
        return f"compacted: {item.get('before', '?')} to {item.get('after', '?')} tokens ({item.get('trigger', '')})"
    if form == "subagent":
        return f"subagent: {item.get('goal', '')} {item.get('summary') or ''}".rstrip()
    return f"{item.get('level', form)}: {item.get('text', '')}"
