"""Run a search in a process: ripgrep where the session's PATH has it, else our own worker with the same answers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hermes_daemon.tools.search.model import (
    MOST_FILE_BYTES,
    MOST_LINES,
    MOST_PATHS,
    Complaint,
    Found,
    Line,
    Search,
    excerpt,
)

LIMIT_S = 30.0
_READ = 262_144
_MOST_ERROR = 4000

_RULES = (
    "--no-config", "--hidden", "--no-ignore-dot", "--no-ignore-global", "--no-ignore-exclude", "--no-require-git",
    "--glob=!.git",
)  # fmt: skip


async def run_search(search: Search, env: Mapping[str, str], limit_s: float = LIMIT_S) -> Found:
    """The answer. A pattern ripgrep does not know is tried in Python, whose dialect differs a little."""
    ripgrep = shutil.which("rg", path=env.get("PATH") or os.defpath)
    if ripgrep is None:
        return await _python(search, limit_s)
    found = await _ripgrep(ripgrep, search, limit_s)
    if found.error and search.target == "content":
        second = await _python(search, limit_s)
        return found if second.error else second
    return found


async def _ripgrep(program: str, search: Search, limit_s: float) -> Found:
    rules = _RULES if search.repository else (*_RULES, "--no-ignore-parent")
    if search.target == "files":
        arguments = [*rules, "--files", "--null", "--", search.root]
        return await _collect([program, *arguments], b"", b"\0", _path_reader(search.root), limit_s, MOST_PATHS)
    arguments = [
        *rules, "--json", "--crlf", "--engine=auto", f"--max-filesize={MOST_FILE_BYTES}", f"--context={search.context}",
        f"--regexp={search.pattern}", "--", search.root,
    ]  # fmt: skip
    return await _collect([program, *arguments], b"", b"\n", _RipgrepJson(search.root), limit_s, MOST_LINES)


async def _python(search: Search, limit_s: float) -> Found:
    most = MOST_LINES if search.target == "content" else MOST_PATHS
    command = [sys.executable, "-m", "hermes_daemon.tools.search.worker"]
    return await _collect(command, msgspec.json.encode(search), b"\n", _read_row, limit_s, most)


_Reader = Callable[[bytes], "list[Line] | Complaint"]


async def _collect(
    command: list[str], given: bytes, separator: bytes, read: _Reader, limit_s: float, most: int
) -> Found:
    """Run to the end, the limit, or `most` lines. Cancellation stops the process."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(_bounded(process.stderr))
    lines: list[Line] = []
    partial, error = "", ""
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(given)
            process.stdin.close()
        async with asyncio.timeout(limit_s):
            rest = b""
            while chunk := await process.stdout.read(_READ):
                *records, rest = (rest + chunk).split(separator)
                for record in records:
                    answer = read(record)
                    if isinstance(answer, Complaint):
                        error = answer.error
                    else:
                        lines += answer
                if len(lines) >= most:
                    partial = f"stopped after {most} lines"
                    break
            else:
                code = await process.wait()
                if code not in (0, 1) and not lines and not error:
                    error = (await errors).strip() or f"the search ended with code {code}"
    except TimeoutError:
        partial = f"stopped after {limit_s:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        errors.cancel()
        await process.wait()
    return Found(tuple(lines[:most]), partial, error)


async def _bounded(stream: asyncio.StreamReader) -> str:
    kept = b""
    while chunk := await stream.read(_READ):
        kept = (kept + chunk)[:_MOST_ERROR]
    return kept.decode("utf-8", "replace")


def _read_row(record: bytes) -> list[Line] | Complaint:
    if record.startswith(b'{"error"'):
        return msgspec.json.decode(record, type=Complaint)
    return [msgspec.json.decode(record, type=Line)]


def _path_reader(root: str) -> _Reader:
    def read(record: bytes) -> list[Line] | Complaint:
        return [Line(_relative(record.decode("utf-8", "replace"), root))] if record else []

    return read


class _RipgrepJson:
    """Reads `rg --json`. A file's lines are given out when its end tells that it was no binary file."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._pending: list[Line] = []

    def __call__(self, record: bytes) -> list[Line] | Complaint:
        if not record:
            return []
        message = msgspec.json.decode(record)
        kind, data = message["type"], message["data"]
        if kind == "begin":
            self._pending = []
        elif kind in ("match", "context"):
            self._pending.append(self._line(data, kind == "match"))
        elif kind == "end":
            lines, self._pending = self._pending, []
            return lines if data.get("binary_offset") is None else []
        return []

    def _line(self, data: dict[str, Any], match: bool) -> Line:
        raw = _bytes(data["lines"])
        start = data["submatches"][0]["start"] if data.get("submatches") else 0
        text = raw.decode("utf-8", "replace")
        at = len(raw[:start].decode("utf-8", "replace"))
        path = _relative(_bytes(data["path"]).decode("utf-8", "replace"), self._root)
        return Line(path, data["line_number"], excerpt(text, at), match)


def _bytes(value: dict[str, str]) -> bytes:
    return value["text"].encode("utf-8") if "text" in value else base64.b64decode(value["bytes"])


def _relative(path: str, root: str) -> str:
    return "" if path == root else path[len(root.rstrip("/")) + 1 :]
