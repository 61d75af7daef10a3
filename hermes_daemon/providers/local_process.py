"""The life of one engine process, seen from the daemon: start, orders, its log, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from typing import IO, Any

import msgspec

from hermes_daemon.core.ports import Processes, StorageError

STOP_S = 3.0
LOG_BYTES = 1_048_576


class EngineError(Exception):
    """The process did not get as far as listening. `no_engine`: because the engine is not installed."""

    def __init__(self, message: str, *, no_engine: bool = False) -> None:
        super().__init__(message)
        self.no_engine = no_engine


class EngineProcess:
    """A child in a process group of its own, with its log. `on_end` is called once, whoever ends it."""

    def __init__(self, process: asyncio.subprocess.Process, log: IO[bytes], on_end: Callable[[], None]) -> None:
        self._process = process
        self._log = log
        self._log_start = os.fstat(log.fileno()).st_size
        self._words = ""
        self._on_end = on_end
        self._answered = asyncio.Event()  # nobody reads its standard output any more
        self._watching: asyncio.Task[None] | None = None
        self.url = ""

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        orders: dict[str, Any],
        *,
        title: str,
        log_path: str | None,
        timeout_s: float,
        processes: Processes | None,
        on_end: Callable[[], None],
    ) -> EngineProcess:
        """Run `command`, hand it its orders and wait for its URL, `timeout_s` seconds at most (0 = no limit).

        Raises EngineError; nothing of the process is left then.
        """
        marker = f"hermes-local-{os.urandom(8).hex()}"
        log = _open_log(log_path)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                marker,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            log.close()
            raise EngineError(f"its process did not start: {error}") from error
        child = cls(process, log, on_end)
        # Written down before anything else, and before its end can be.
        recording = asyncio.ensure_future(_recorded(processes, process.pid, marker, title))
        child._watching = asyncio.ensure_future(child._watch(processes, recording))
        try:
            try:
                await asyncio.shield(recording)
                child.url = await child._hear(orders, timeout_s)
            finally:
                child._answered.set()
        except StorageError as error:
            await child.stop()
            raise EngineError(f"its process could not be written down: {error}") from error
        except BaseException:
            await child.stop()
            raise
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, minus the signal that killed it, None while it runs."""
        return self._process.returncode

    def last_words(self) -> str:
        """The last lines it wrote to its log, in one line."""
        if not self._log.closed:
            end = os.fstat(self._log.fileno()).st_size
            tail = os.pread(self._log.fileno(), 4096, max(self._log_start, end - 4096))
            lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
            self._words = " | ".join(lines[-3:])[-400:]
        return self._words

    async def ended(self, timeout_s: float) -> bool:
        """Whether it ends within `timeout_s` seconds."""
        assert self._watching is not None
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._watching)
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """End it: its input first, its process group if that does not do."""
        assert self._process.stdin is not None
        assert self._watching is not None
        self._process.stdin.close()
        if not await self.ended(STOP_S):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            await self._watching

    async def _hear(self, orders: dict[str, Any], timeout_s: float) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(ConnectionError):  # its silence below tells why
            self._process.stdin.write(msgspec.json.encode(orders) + b"\n")
            await self._process.stdin.drain()
        try:
            async with asyncio.timeout(timeout_s or None):
                said = _decoded(await self._process.stdout.readline())
        except TimeoutError:
            raise EngineError(f"it was not ready in {timeout_s:g} s (local.start_timeout)") from None
        if isinstance(said.get("url"), str):
            return str(said["url"])
        if said.get("error") == "no_engine":
            raise EngineError("the engine is not installed", no_engine=True)
        await self.ended(STOP_S)  # its log holds the engine's last words only then
        words = self.last_words() or said.get("reason") or "its process said nothing"
        raise EngineError(f"it did not load: {words}")

    async def _watch(self, processes: Processes | None, recording: asyncio.Future[None]) -> None:
        """Wait for the end, whoever brings it, and let go of everything."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.wait()
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)  # what it may have left behind in its group
        await self._answered.wait()
        await self._process.stdout.read()  # the event loop lets go of a pipe when it is read to its end
        self._process.stdin.close()
        with contextlib.suppress(ConnectionError):
            await self._process.stdin.wait_closed()
        self.last_words()
        self._log.close()
        self._on_end()
        await asyncio.wait([recording])
        if processes is not None and recording.exception() is None:
            await processes.ended(self.pid)


async def _recorded(processes: Processes | None, pid: int, marker: str, title: str) -> None:
    if processes is not None:
        await processes.started(pid, marker, title)


def _open_log(path: str | None) -> IO[bytes]:
    """Where the child writes: the log file, begun anew when it has grown, or a file without a name."""
    if path is None:
        import tempfile

        return tempfile.TemporaryFile()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    grown = os.path.exists(path) and os.path.getsize(path) > LOG_BYTES
    return open(path, "wb+" if grown else "ab+")


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return {}
    return said if isinstance(said, dict) else {}
