"""search_files: lines that match a regular expression, or files by name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from hermes_daemon.core.ports import Rejected, ToolContext, ToolOutcome
from hermes_daemon.tools.paths import Place, holds_credentials, locate, shown, similar_names
from hermes_daemon.tools.registry import FunctionTool
from hermes_daemon.tools.search.globs import matcher
from hermes_daemon.tools.search.model import Found, Line, Search
from hermes_daemon.tools.search.run import run_search
from hermes_daemon.tools.search.walk import rules_root


def search_files_tool(home: str = "") -> FunctionTool:
    """The tool."""

    async def search_files(
        ctx: ToolContext,
        pattern: Annotated[str, msgspec.Meta(min_length=1)],
        target: Literal["content", "files"] = "content",
        path: str = ".",
        file_glob: str | None = None,
        limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50,
        offset: Annotated[int, msgspec.Meta(ge=0)] = 0,
        order: Literal["discovery", "modified"] = "discovery",
        output_mode: Literal["content", "files_only", "count"] = "content",
        context: Annotated[int, msgspec.Meta(ge=0, le=20)] = 0,
    ) -> ToolOutcome:
        """Search file contents with a regular expression, or find files by name.

        Files that .gitignore leaves out, binary files and links are not searched.

        Args:
            pattern: regular expression, line by line; with target "files" a glob such as `*.py` or a part of a name
            target: "content" or "files"
            path: folder or file to search in, relative to the session's folder
            file_glob: only files whose name (or path, with a slash) matches, such as `*.{ts,tsx}`
            limit: how many matches or files to show
            offset: how many to skip, for the next page
            order: by path, or the newest file first
            output_mode: the matching lines, only the files that have some, or how many each file has
            context: lines to show before and after each match
        """
        if target == "content" and ("\n" in pattern or "\\n" in pattern.replace("\\\\", "")):
            raise Rejected("patterns are matched line by line and cannot hold a line break", "$.pattern")
        place = locate(path, ctx, home=home)
        absent = await asyncio.to_thread(_absent, place)
        if absent:
            return ToolOutcome(absent, is_error=True)
        lines_of = context if output_mode == "content" else 0
        search = Search(place.path, target, pattern, lines_of, await asyncio.to_thread(rules_root, place.path))
        found = await run_search(search, ctx.env)
        if found.error:
            return ToolOutcome(f"Error: {found.error[:2000]}", is_error=True)
        wanted = _Wanted(place, ctx.cwd, home, file_glob, pattern if target == "files" else None)
        groups = await asyncio.to_thread(wanted.grouped, found, order)
        rows = _rows(groups, "files_only" if target == "files" else output_mode, context)
        return ToolOutcome(_page(rows, offset, limit, ctx.settings.tool_output.max_bytes, found.partial, place))

    return FunctionTool(search_files, title=_title, toolset="file", kind="search", read_only=True, paths=("path",))


def _title(args: Mapping[str, Any]) -> str:
    what = "Find files" if args.get("target") == "files" else "Search"
    where = f" in {args['path']}" if args.get("path", ".") != "." else ""
    return f"{what} {args['pattern']!r}{where}"


def _absent(place: Place) -> str:
    if os.path.exists(place.path):
        return ""
    near = similar_names(place.path)
    hint = f" Similar names there: {', '.join(near)}." if near else ""
    return f"Error: no such file or folder: {place.shown}.{hint}"


def _rows(groups: dict[str, list[Line]], output_mode: str, context: int) -> list[str]:
    if output_mode == "files_only":
        return list(groups)
    if output_mode == "count":
        return [f"{name}:{sum(line.match for line in lines)}" for name, lines in groups.items()]
    return [row for name, lines in groups.items() for row in _match_rows(name, lines, context)]


class _Wanted:
    """Which of the lines found may be shown, and under which name."""

    def __init__(self, place: Place, cwd: str, home: str, glob: str | None, name: str | None) -> None:
        self._place, self._root, self._home = place, os.path.realpath(cwd), home
        self._globs = [matcher(pattern) for pattern in (glob, _name_glob(name)) if pattern]

    def grouped(self, found: Found, order: str) -> dict[str, list[Line]]:
        """Lines by file, files in order; lines by number."""
        groups: dict[str, list[Line]] = {}
        for line in found.lines:
            groups.setdefault(line.path, []).append(line)
        kept = [path for path in groups if self._may(path)]
        if order == "modified":
            kept.sort(key=lambda path: (-self._modified(path), path.split("/")))
        else:
            kept.sort(key=lambda path: path.split("/"))
        return {self._shown(path): sorted(groups[path], key=lambda line: line.number) for path in kept}

    def _may(self, path: str) -> bool:
        name = path or os.path.basename(self._place.path)
        return all(glob(name) for glob in self._globs) and not holds_credentials(self._full(path), self._home)

    def _full(self, path: str) -> str:
        return os.path.join(self._place.path, path) if path else self._place.path

    def _shown(self, path: str) -> str:
        return shown(self._full(path), self._root)

    def _modified(self, path: str) -> int:
        try:
            return os.lstat(self._full(path)).st_mtime_ns
        except OSError:
            return 0


def _name_glob(name: str | None) -> str | None:
    if name is None or any(mark in name for mark in "*?[{"):
        return name
    return f"*{name}*" if "/" not in name else f"**/*{name}*"


def _match_rows(name: str, lines: list[Line], context: int) -> list[str]:
    """One row for each match, with the lines of context around it; lines between two matches go with the first."""
    rows: list[list[str]] = []
    waiting: list[str] = []
    last = 0
    for line in lines:
        gap = ["--"] if context and last and line.number > last + 1 else []
        text = f"{name}{':' if line.match else '-'}{line.number}{':' if line.match else '-'}{line.text}"
        if line.match:
            rows.append([*waiting, *gap, text])
            waiting = []
        elif rows and not gap and not waiting and line.number - last == 1:
            rows[-1].append(text)
        else:
            waiting += [*gap, text]
        last = line.number
    return ["\n".join(row) for row in rows]


def _page(rows: list[str], offset: int, limit: int, most: int, partial: str, place: Place) -> str:
    picked: list[str] = []
    size = 0
    for row in rows[offset : offset + limit]:
        size += len(row.encode("utf-8", "replace")) + 1
        if size > most and picked:
            break
        picked.append(row)
    end = offset + len(picked)
    total = f"{len(rows)}{' or more' if partial else ''}"
    notes = [place.note]
    if not rows:
        notes.append(f"nothing found{f'; {partial}' if partial else ''}")
    elif not picked:
        notes.append(f"total_count {total}; offset {offset} is behind the end")
    else:
        more = f", next_offset {end}" if end < len(rows) else ""
        notes.append(f"total_count {total}, shown {offset + 1}–{end}{more}{f'; {partial}' if partial else ''}")
    return "\n".join([*picked, *(f"[{note}]" for note in notes if note)])
