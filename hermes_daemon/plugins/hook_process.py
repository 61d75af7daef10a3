"""One run of a shell hook: JSON on its standard input, JSON or words on its standard output, a limit of time.

A hook that never reads its input is fine. One that is over its time is killed with everything it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from typing import Final

import msgspec

MOST_OUTPUT: Final = 1_048_576
BLOCKS: Final = 2
"""The exit code that means no."""


class HookFailed(Exception):
    """The hook said neither yes nor no: it broke, or its time was over."""


class Ran(msgspec.Struct, frozen=True):
    """What a hook left: its exit code and its outputs, cut at 1 MiB each."""

    code: int
    stdout: str
    stderr: str


async def run_hook(command: str, payload: bytes, *, cwd: str, env: Mapping[str, str], timeout_s: float) -> Ran:
    """Run `command` by the shell in the folder `cwd`. HookFailed when it cannot be started or is over its time."""
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=cwd, env=dict(env), start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise HookFailed(f"{command!r} cannot be started: {error.strerror}") from None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(timeout_s):
            _, stdout, stderr, code = await asyncio.gather(
                _given(process.stdin, payload), _read(process.stdout), _read(process.stderr), process.wait()
            )
    except TimeoutError:
        raise HookFailed(f"{command!r} took longer than {timeout_s:g} s and was killed") from None
    finally:
        _kill_group(process.pid)
        if process.returncode is None:
            await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # pipes that a child holds open would stay
    return Ran(code, stdout, stderr)


async def _given(stdin: asyncio.StreamWriter, payload: bytes) -> None:
    # RuntimeError: uvloop's word for a pipe that its reader has closed already.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, RuntimeError):
        stdin.write(payload)
        await stdin.drain()
        stdin.close()


async def _read(stream: asyncio.StreamReader) -> str:
    kept = bytearray()
    while piece := await stream.read(65_536):
        kept += piece[: MOST_OUTPUT - len(kept)]
    return kept.decode("utf-8", "replace")


def _kill_group(pid: int) -> None:
    """Whatever the hook left behind goes with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
