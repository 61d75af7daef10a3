"""read_file: a page of a text file with line numbers, whatever the size of the file."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Mapping
from typing import Annotated, Any, BinaryIO

import msgspec

from hermes_daemon.core.ports import Refused, ToolContext, ToolOutcome
from hermes_daemon.core.settings import ToolOutputSettings
from hermes_daemon.tools.paths import Place, locate, similar_names
from hermes_daemon.tools.registry import FunctionTool
from hermes_daemon.tools.text_files import MOST_TRANSCODED, SAMPLE, Encoding, detect, open_regular
from hermes_daemon.tools.versions import Versions

_CHUNK = 1_048_576
_MOST_COUNTED = 268_435_456


class Page(msgspec.Struct, frozen=True):
    """Lines `first`… of a file. `total` lines, exact unless `counted` is false; `clipped` counts shortened lines."""

    lines: tuple[str, ...]
    first: int
    total: int
    counted: bool = True
    full: bool = False
    clipped: int = 0
    crlf: bool = False


def read_file_tool(versions: Versions, home: str = "") -> FunctionTool:
    """The tool; what it shows is noted in `versions`."""

    async def read_file(
        ctx: ToolContext,
        path: str,
        offset: Annotated[int, msgspec.Meta(ge=1)] = 1,
        limit: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 2000,
    ) -> ToolOutcome:
        """Read a text file. Each line is shown as `number|text`; the number is not part of the file.

        Args:
            path: the file, relative to the session's folder or absolute
            offset: first line to show, counted from 1
            limit: how many lines to show at most
        """
        place = locate(path, ctx, home=home)
        return await asyncio.to_thread(_read, place, offset, limit, ctx, versions)

    return FunctionTool(
        read_file,
        title=_title,
        toolset="file",
        kind="read",
        read_only=True,
        paths=("path",),
    )


def _title(args: Mapping[str, Any]) -> str:
    return f"Read {args['path']}" + (f" from line {args['offset']}" if args.get("offset", 1) != 1 else "")


def _read(place: Place, offset: int, limit: int, ctx: ToolContext, versions: Versions) -> ToolOutcome:
    try:
        file, status = open_regular(place.path)
    except FileNotFoundError:
        return ToolOutcome(_not_found(place), is_error=True)
    with file:
        sample = file.read(SAMPLE)
        encoding = detect(sample)
        if encoding is None or (not encoding.utf8 and status.st_size > MOST_TRANSCODED):
            why = "a binary file" if encoding is None else f"{encoding.name.upper()} text of more than 10 MB"
            raise Refused(
                f"{place.shown} is {why} ({status.st_size} bytes) and is not shown.", "Use the terminal tool."
            )
        page = read_page(_as_utf8(file, encoding), offset, limit, ctx.settings.tool_output)
    whole = page.first == 1 and page.counted and len(page.lines) == page.total and not page.clipped
    versions.saw(ctx.session_id, place.path, status, whole=whole)
    return ToolOutcome(_rendered(page, place, encoding, status.st_size, offset))


def read_page(file: BinaryIO, offset: int, limit: int, caps: ToolOutputSettings) -> Page:
    """Lines offset … offset + limit - 1 of UTF-8 bytes, within the caps. Reads on to the end to count the lines."""
    skipped = _skip_lines(file, offset - 1)
    if skipped < offset - 1:
        return Page((), offset, skipped)
    lines: list[str] = []
    size, clipped, crlf, full = 0, 0, False, False
    while len(lines) < limit:
        raw, length = _line(file, caps.max_line_length * 4)
        if not length:
            return Page(tuple(lines), offset, skipped + len(lines), clipped=clipped, crlf=crlf)
        crlf = crlf or raw.endswith(b"\r\n")
        text = raw.decode("utf-8", "replace").rstrip("\r\n") if length == len(raw) else raw.decode("utf-8", "ignore")
        if len(text) > caps.max_line_length or length > len(raw):
            text, clipped = f"{text[: caps.max_line_length]}… [line of {length} bytes]", clipped + 1
        size += len(text) + 8
        if size > caps.max_bytes and lines:
            file.seek(-length, os.SEEK_CUR)
            full = True
            break
        lines.append(text)
    more, counted = _count_lines(file)
    return Page(tuple(lines), offset, skipped + len(lines) + more, counted, full, clipped, crlf)


def _skip_lines(file: BinaryIO, count: int) -> int:
    """Move behind `count` lines; how many there were."""
    seen, last = 0, b"\n"
    while seen < count:
        chunk = file.read(_CHUNK)
        if not chunk:
            return seen + (last != b"\n")
        last, breaks = chunk[-1:], chunk.count(b"\n")
        if seen + breaks < count:
            seen += breaks
            continue
        position = 0
        for _ in range(count - seen):
            position = chunk.index(b"\n", position) + 1
        file.seek(position - len(chunk), os.SEEK_CUR)
        seen = count
    return seen


def _line(file: BinaryIO, most: int) -> tuple[bytes, int]:
    """(the line up to `most` bytes, its whole length); length 0 at the end. A longer line is read and thrown away."""
    line = file.readline(most)
    length = len(line)
    if length < most or line.endswith(b"\n"):
        return line, length
    while True:
        piece = file.readline(_CHUNK)
        length += len(piece)
        if not piece or piece.endswith(b"\n"):
            return line, length


def _count_lines(file: BinaryIO) -> tuple[int, bool]:
    """(lines from here to the end, whether the end was reached)."""
    lines, read, last = 0, 0, b"\n"
    while chunk := file.read(_CHUNK):
        lines += chunk.count(b"\n")
        last = chunk[-1:]
        read += len(chunk)
        if read >= _MOST_COUNTED and len(chunk) == _CHUNK:
            return lines, False
    return lines + (last != b"\n"), True


def _as_utf8(file: BinaryIO, encoding: Encoding) -> BinaryIO:
    file.seek(len(encoding.mark))
    if encoding.utf8:
        return file
    return io.BytesIO(file.read().decode(encoding.name, "replace").encode("utf-8"))


def _not_found(place: Place) -> str:
    near = similar_names(place.path)
    hint = f" Similar names there: {', '.join(near)}." if near else ""
    folder = os.path.dirname(place.path)
    if not os.path.isdir(folder):
        hint = f" Its folder {folder} does not exist."
    return f"Error: no such file: {place.shown}.{hint}"


def _rendered(page: Page, place: Place, encoding: Encoding, size: int, offset: int) -> str:
    last = page.first + len(page.lines) - 1
    notes = [place.note, encoding.note, "lines end with CRLF, which edits keep" if page.crlf else ""]
    total = f"{page.total}" if page.counted else f"more than {page.total}"
    if not page.lines:
        empty = "the file is empty" if page.total == 0 else f"line {offset} is behind the end"
        notes.append(f"{empty}; total_lines {total}, file_size {size}")
    elif last < page.total or page.first > 1:
        more = f", next_offset {last + 1}" if last < page.total else ""
        why = " (output limit)" if page.full else ""
        notes.append(f"lines {page.first}–{last} of total_lines {total}{why}, file_size {size}{more}")
    else:
        notes.append(f"total_lines {total}, file_size {size}")
    if page.clipped:
        notes.append(f"{page.clipped} long line(s) shortened; the rest of a line can be read with the terminal tool")
    body = "".join(f"{page.first + index}|{line}\n" for index, line in enumerate(page.lines))
    return body + "\n".join(f"[{note}]" for note in notes if note)
