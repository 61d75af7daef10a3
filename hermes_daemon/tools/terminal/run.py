"""One command in a shell of its own process group, from its start to the end of everything it began."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from hermes_daemon.core.ports import Refused, ToolContext
from hermes_daemon.tools.terminal.output import Output
from hermes_daemon.tools.terminal.processes import KNOWS_PROCESSES, MARKER, Stray, stop, strays

_T = TypeVar("_T")

KEPT = 1_048_576
_READ = 65_536
_LAST_READS = 32
_STRAY_GRACE_S = 0.5

# The gate: the shell runs only after a line came, which is sent when the process is on record. If the daemon dies
# before, the read fails and nothing was done.
_GATE = 'read -r go || exit 125; exec "$@" </dev/null'


class Ran(msgspec.Struct, frozen=True):
    """How a command ended. `code` is negative for a signal, 124 for a time-out. `stopped` were left running by it."""

    code: int
    output: Output
    timed_out: bool = False
    stopped: tuple[Stray, ...] = ()


async def run_command(command: str, ctx: ToolContext, *, cwd: str, limit_s: float) -> Ran:
    """Run the command; output goes to ctx.progress as it comes.

    Returns when the shell has exited, never waiting for a pipe that a background child holds. At the end, at the
    time-out and on cancellation whatever the command left running is stopped: TERM, grace, KILL.
    """
    marker = secrets.token_hex(8)
    shell = _shell(ctx)
    env = {**ctx.env, MARKER: marker}
    output = Output(ctx.settings.tool_output, KEPT if ctx.transforms_output else 0)
    gate_end, gate = os.pipe()
    read_end, write_end = os.pipe()
    try:
        os.set_blocking(read_end, False)
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", _GATE, "sh", shell, "-c", command,
            stdin=gate_end, stdout=write_end, stderr=write_end,
            env=env, cwd=cwd, start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(read_end)
        os.close(gate)
        raise
    finally:
        os.close(write_end)
        os.close(gate_end)
    loop = asyncio.get_running_loop()
    on_data = _reader(read_end, output, ctx.progress, loop)
    loop.add_reader(read_end, on_data)
    ended = False
    try:
        await ctx.processes.started(process.pid, marker, command)
        with contextlib.suppress(BrokenPipeError):
            os.write(gate, b"\n")
        try:
            code, timed_out = await asyncio.wait_for(process.wait(), limit_s), False
        except TimeoutError:
            code, timed_out = 124, True
        grace = ctx.settings.terminal.grace_s if timed_out else _STRAY_GRACE_S
        stopped = await _whole(_stop(process, marker, grace))
        ended = True
        return Ran(code, output, timed_out, tuple(stray for stray in stopped if stray.pid != process.pid))
    finally:
        if not ended:
            await _whole(_stop(process, marker, ctx.settings.terminal.grace_s))
        os.close(gate)
        loop.remove_reader(read_end)
        _drain(read_end, output, ctx.progress)
        os.close(read_end)
        await _whole(_ended(ctx, process.pid))


async def _ended(ctx: ToolContext, pid: int) -> None:
    await ctx.processes.ended(pid)


async def _stop(process: asyncio.subprocess.Process, marker: str, grace_s: float) -> list[Stray]:
    """Stop the command's processes; those that were found alive. Looking through /proc is done in a thread."""
    if KNOWS_PROCESSES:
        stopped = await asyncio.to_thread(stop, lambda: strays(marker, process.pid), grace_s)
        await process.wait()
        return stopped
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), grace_s)
    return []


async def _whole(work: Coroutine[Any, Any, _T]) -> _T:
    """Await it to its end even when cancelled meanwhile; then the cancellation goes on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


def _reader(
    descriptor: int, output: Output, progress: Callable[[str], None], loop: asyncio.AbstractEventLoop
) -> Callable[[], None]:
    def on_data() -> None:
        try:
            data = os.read(descriptor, _READ)
        except BlockingIOError:
            return
        if data:
            progress(output.feed(data))
        else:
            loop.remove_reader(descriptor)

    return on_data


def _drain(descriptor: int, output: Output, progress: Callable[[str], None]) -> None:
    """What is in the pipe already; not more, as a process that could not be stopped may write for ever."""
    with contextlib.suppress(BlockingIOError):
        for _ in range(_LAST_READS):
            data = os.read(descriptor, _READ)
            if not data:
                break
            progress(output.feed(data))
    rest = output.feed(b"", final=True)
    if rest:
        progress(rest)


def _shell(ctx: ToolContext) -> str:
    """The configured shell, else bash, else sh."""
    path = ctx.env.get("PATH") or os.defpath
    wanted = ctx.settings.terminal.shell
    if wanted:
        found = shutil.which(wanted, path=path)
        if found is None:
            raise Refused(f"The shell {wanted!r} was not found.", "Correct the setting terminal.shell.")
        return found
    return shutil.which("bash", path=path) or shutil.which("bash", path=os.defpath) or "/bin/sh"
