"""write_file and patch: changes that keep a file's encoding, mark, line ends, mode and owner."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

from hermes_daemon.core.ports import Refused, Rejected, ToolContext, ToolOutcome
from hermes_daemon.core.redact import redact
from hermes_daemon.tools.atomic_write import make_folders, replace_content
from hermes_daemon.tools.exact_match import replace_exactly
from hermes_daemon.tools.line_diff import file_change
from hermes_daemon.tools.paths import Place, locate, similar_names
from hermes_daemon.tools.registry import FunctionTool
from hermes_daemon.tools.text_files import Encoding, TextFile, encoded, load, newline_of
from hermes_daemon.tools.versions import Versions, stamp_of

_GUTTER = re.compile(r"\d{1,7}\|")


def write_file_tool(versions: Versions, home: str = "") -> FunctionTool:
    """The tool; it refuses to overwrite what `versions` says the session has not seen."""

    async def write_file(ctx: ToolContext, path: str, content: str) -> ToolOutcome:
        """Write a text file: a new one, with its folders, or the whole new content of one that was read before.

        To change a part of a file use patch. Encoding and line ends of an existing file are kept.

        Args:
            path: the file, relative to the session's folder or absolute inside it
            content: the whole new content
        """
        place = locate(path, ctx, home=home, write=True)
        return await _finished(asyncio.to_thread(_write, place, content, ctx, versions))

    return FunctionTool(
        write_file,
        title=lambda args: f"Write {args['path']} ({_lines(args['content'])})",
        toolset="file",
        kind="edit",
        paths=("path",),
    )


def patch_tool(versions: Versions, home: str = "") -> FunctionTool:
    """The tool; it refuses to change a file that changed since the session read it."""

    async def patch(
        ctx: ToolContext, path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> ToolOutcome:
        """Replace text in a file. old_string must stand in the file exactly, indentation included, and only once.

        Args:
            path: the file, relative to the session's folder or absolute inside it
            old_string: the text to replace, without line numbers; with enough lines around it to be found once
            new_string: the text to put there; empty deletes
            replace_all: replace every occurrence
        """
        if not old_string.strip():
            raise Rejected("expected text that stands in the file; to make a new file use write_file", "$.old_string")
        if old_string == new_string:
            raise Rejected("is the same as old_string, so there is nothing to change", "$.new_string")
        place = locate(path, ctx, home=home, write=True)
        return await _finished(asyncio.to_thread(_patch, place, old_string, new_string, replace_all, ctx, versions))

    return FunctionTool(patch, title=lambda args: f"Patch {args['path']}", toolset="file", kind="edit", paths=("path",))


async def _finished(work: Coroutine[Any, Any, ToolOutcome]) -> ToolOutcome:
    """The outcome of a write. When cancelled, the write is waited for, so that nothing changes after the turn's end."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _write(place: Place, content: str, ctx: ToolContext, versions: Versions) -> ToolOutcome:
    if _is_page(content):
        raise Rejected("the text carries the line numbers that read_file shows; send the plain content", "$.content")
    old = _existing(place)
    notes = [place.note]
    if old is None:
        text, encoding, before = content, Encoding("utf-8"), None
        made = make_folders(place.path)
        notes.append(f"made {len(made)} folder(s)" if made else "")
    else:
        _not_stale(place, old, ctx, versions)
        _no_masks(old.text, content)
        text, encoding, before = _in_style(content, old), old.encoding, old.status
        notes.append(encoding.note)
        if text == old.text:
            return ToolOutcome(f"{place.shown} already has this content; nothing was changed.")
    data = _bytes(text, encoding)
    status = replace_content(place.path, data, before)
    versions.saw(ctx.session_id, place.path, status, whole=True)
    change = file_change(place.shown, None if old is None else old.text, text)
    done = "Created" if old is None else "Replaced"
    summary = f"{done} {place.shown}: {len(data)} bytes, {_lines(text)} (+{change.added} -{change.removed})."
    return ToolOutcome(_with_notes(summary, notes), shown=change.diff, changes=(change,))


def _patch(place: Place, old: str, new: str, everywhere: bool, ctx: ToolContext, versions: Versions) -> ToolOutcome:
    file = _existing(place)
    if file is None:
        near = similar_names(place.path)
        hint = f" Similar names there: {', '.join(near)}." if near else ""
        return ToolOutcome(f"Error: no such file: {place.shown}.{hint}", is_error=True)
    seen = versions.seen(ctx.session_id, place.path)
    if seen is not None and seen.stamp != stamp_of(file.status):
        raise Refused(f"{place.shown} has changed since you read it.", "Read it again, then patch what is there now.")
    edit = replace_exactly(file.text, old, new, everywhere=everywhere)
    if edit.text is None:
        return ToolOutcome(f"Error: {place.shown}: {edit.problem}", is_error=True)
    status = replace_content(place.path, _bytes(edit.text, file.encoding), file.status)
    versions.saw(ctx.session_id, place.path, status, whole=seen is not None and seen.whole)
    change = file_change(place.shown, file.text, edit.text)
    summary = f"Patched {place.shown}: {edit.count} replacement(s) (+{change.added} -{change.removed}).\n{change.diff}"
    return ToolOutcome(_with_notes(summary, [place.note, file.encoding.note]), shown=change.diff, changes=(change,))


def _existing(place: Place) -> TextFile | None:
    try:
        if stat.S_ISDIR(os.stat(place.path).st_mode):
            raise Refused(f"{place.shown} is a folder, not a file.")
        return load(place.path)
    except FileNotFoundError:
        return None


def _not_stale(place: Place, old: TextFile, ctx: ToolContext, versions: Versions) -> None:
    """Overwriting is for those who know what they overwrite."""
    seen = versions.seen(ctx.session_id, place.path)
    if not old.text:
        return
    if seen is None:
        raise Refused(f"{place.shown} exists and was not read in this session.", "Read it first, or use patch.")
    if seen.stamp != stamp_of(old.status):
        raise Refused(f"{place.shown} has changed since you read it.", "Read it again first.")
    if not seen.whole:
        raise Refused(f"{place.shown} was read only in part.", "Read all of it first, or use patch.")


def _no_masks(old: str, content: str) -> None:
    """A secret was shown masked; written back like that it would be lost."""
    kept = set(content.splitlines())
    for number, line in enumerate(old.splitlines(), 1):
        masked = redact(line)
        if masked != line and masked in kept and line not in kept:
            raise Refused(f"Line {number} holds a secret that was shown masked; this would overwrite it.", "Use patch.")


def _in_style(content: str, old: TextFile) -> str:
    if "\r\n" in content or newline_of(old.text) == "\n":
        return content
    return content.replace("\n", "\r\n")


def _bytes(text: str, encoding: Encoding) -> bytes:
    try:
        return encoded(text, encoding)
    except UnicodeEncodeError as error:
        raise Rejected(f"the text holds a character that {encoding.name} cannot write: {error.reason}") from None


def _is_page(content: str) -> bool:
    """Whether every line begins with the gutter of read_file, counting upwards."""
    lines = [line for line in content.splitlines() if line]
    if len(lines) < 2 or not all(_GUTTER.match(line) for line in lines):
        return False
    numbers = [int(line.partition("|")[0]) for line in lines]
    return all(after == before + 1 for before, after in pairwise(numbers))


def _lines(text: str) -> str:
    count = text.count("\n") + (not text.endswith("\n") and bool(text))
    return f"{count} line" if count == 1 else f"{count} lines"


def _with_notes(text: str, notes: list[str]) -> str:
    return "\n".join([text.rstrip("\n"), *(f"[{note}]" for note in notes if note)])
