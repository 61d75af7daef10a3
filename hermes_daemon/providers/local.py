"""The embedded model: llama.cpp in a child process, so that it can neither block nor take down the daemon.

A child is started with the first request for its model and stopped when nobody asked for a while. It listens on a
loopback port with a random key and is asked like any other endpoint of the chat completions format. It dies with the
daemon: its standard input ends, and on Linux the kernel sees to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import IO, Any

import msgspec

from hermes_daemon.core.ports import Chunk, ModelInfo, Processes, ProviderFailure, Request
from hermes_daemon.core.settings import LocalSettings, ProviderSettings
from hermes_daemon.providers.model_files import find_model
from hermes_daemon.providers.openai_chat import OpenAIChat

CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "local_child.py")
STALL_S = 600.0  # a long prompt on a slow machine, behind another session's
STOP_S = 3.0
LOG_BYTES = 1_048_576
MAX_OUTPUT = 1024  # small models that lose the thread would else fill their window
# Small models wander less at a low temperature; a repeat penalty keeps them out of loops.
SAMPLING = {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1, "cache_prompt": True}


class _Child:
    """A running server and the sessions it serves at the moment."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: IO[bytes], log_start: int) -> None:
        self.name, self.process, self.log, self.log_start = name, process, log, log_start
        self.chat: OpenAIChat | None = None
        self.users = 0
        self.idle: asyncio.TimerHandle | None = None
        self.addressed = asyncio.Event()  # nobody reads its standard output any more
        self.ended: asyncio.Task[None] | None = None
        self._words = ""

    def last_words(self) -> str:
        """The last lines it wrote to its log, in one line."""
        if not self.log.closed:
            end = os.fstat(self.log.fileno()).st_size
            tail = os.pread(self.log.fileno(), 4096, max(self.log_start, end - 4096))
            lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
            self._words = " | ".join(lines[-3:])[-400:]
        return self._words

    def close_log(self) -> None:
        """Keep the last words and give up the file."""
        self.last_words()
        self.log.close()


class Local:
    """ports.Provider for the models in `models_dir` and the file that `local.model` may name."""

    def __init__(
        self,
        settings: LocalSettings,
        models_dir: str,
        *,
        processes: Processes | None = None,
        log_path: str | None = None,
        command: Sequence[str] = (sys.executable, "-P", CHILD),
    ) -> None:
        self._settings = settings
        self._models_dir = models_dir
        self._processes = processes
        self._log_path = log_path
        self._command = tuple(command)
        self._children: dict[str, _Child] = {}
        self._starting = asyncio.Lock()
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        return "local"

    def info(self, name: str) -> ModelInfo:
        """What is known of a local model; it need not be there yet."""
        note = "a tiny model that shows everything works; not one to code with" if name == "smollm2" else ""
        return ModelInfo(
            f"local/{name}",
            name,
            "local",
            context_length=self._settings.context_length,
            max_output=min(MAX_OUTPUT, self._settings.context_length // 2),
            tools=False,
            note=note,
        )

    def path(self, name: str) -> str | None:
        """The file of a model, None when it is not here."""
        return find_model(self._models_dir, name, self._settings.model)

    def pid(self, name: str) -> int | None:
        """The process that serves a model now."""
        child = self._children.get(name)
        return child.process.pid if child is not None else None

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """See ports.Provider. The first call starts the process; a failure to start names the reason."""
        name = request.model.removeprefix("local/")
        child, chat = await self._acquire(name)
        limit = request.max_output or min(MAX_OUTPUT, self._settings.context_length // 2)
        asked = msgspec.structs.replace(request, model=name, max_output=limit, tools=())
        try:
            async with aclosing(chat.stream(asked)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ProviderFailure as failure:
            raise await self._explained(child, failure) from failure
        finally:
            self._release(child)
            if child.users == 0 and child.process.returncode is not None:
                await chat.close()

    async def close(self) -> None:
        """Stop all children. Safe to call twice; a later request starts one again."""
        await asyncio.gather(*(self._stop(child) for child in list(self._children.values())))
        if self._stopping:
            await asyncio.gather(*self._stopping)

    # --- starting and stopping ------------------------------------------------------------------------------------

    async def _acquire(self, name: str) -> tuple[_Child, OpenAIChat]:
        async with self._starting:
            child = self._children.get(name)
            if child is None or child.process.returncode is not None:
                child = await self._start(name)
            assert child.chat is not None
            child.users += 1
            if child.idle is not None:
                child.idle.cancel()
                child.idle = None
            return child, child.chat

    def _release(self, child: _Child) -> None:
        child.users -= 1
        if child.users == 0 and self._children.get(child.name) is child:
            child.idle = asyncio.get_running_loop().call_later(self._settings.idle_s, self._stop_idle, child)

    def _stop_idle(self, child: _Child) -> None:
        if child.users == 0:
            task = asyncio.get_running_loop().create_task(self._stop(child))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    async def _start(self, name: str) -> _Child:
        path = self.path(name)
        if path is None:
            advice = (
                f"`hermes models pull {name}` fetches it" if name == "smollm2" else "`hermes models pull` fetches it"
            )
            raise _failure(f"The local model {name} is not in {self._models_dir}: {advice}.")
        marker, key = f"hermes-local-{os.urandom(8).hex()}", os.urandom(24).hex()
        log = _open_log(self._log_path)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                marker,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            log.close()
            raise _failure(f"The local model's process did not start: {error}.") from error
        child = _Child(name, process, log, os.fstat(log.fileno()).st_size)
        # Written down before anything else, and before its end can be.
        recording = self._record(process.pid, marker, name)
        child.ended = asyncio.get_running_loop().create_task(self._watch(child, recording))
        self._children[name] = child
        try:
            try:
                await asyncio.shield(recording)
                url = await self._address(child, path, key)
            finally:
                child.addressed.set()
        except BaseException:
            await self._stop(child)
            raise
        settings = ProviderSettings(base_url=f"{url}/v1", api_key_env="key", stall_timeout=STALL_S)
        child.chat = OpenAIChat("local", settings, lambda _: key, extra=SAMPLING)
        return child

    async def _address(self, child: _Child, path: str, key: str) -> str:
        """Hand the child its orders and wait for where it listens."""
        process = child.process
        assert process.stdin is not None
        assert process.stdout is not None
        orders = {"model": path, "context_length": self._settings.context_length, "api_key": key}
        orders["threads"] = self._settings.threads
        with contextlib.suppress(ConnectionError):  # its silence below tells why
            process.stdin.write(msgspec.json.encode(orders) + b"\n")
            await process.stdin.drain()
        try:
            async with asyncio.timeout(self._settings.start_timeout or None):
                line = await process.stdout.readline()
        except TimeoutError:
            limit = f"{self._settings.start_timeout:g} s (local.start_timeout)"
            raise _failure(f"The local model {child.name} was not ready in {limit}.") from None
        said = _decoded(line)
        if isinstance(said.get("url"), str):
            return str(said["url"])
        if said.get("error") == "no_engine":
            raise _failure("The embedded model needs an extra: pip install 'hermes-daemon[local]'.")
        words = child.last_words() or said.get("reason") or "it said nothing"
        raise _failure(f"The local model {child.name} ({path}) did not load: {words}")

    def _record(self, pid: int, marker: str, name: str) -> asyncio.Task[None]:
        async def record() -> None:
            if self._processes is not None:
                await self._processes.started(pid, marker, f"local model {name}")

        return asyncio.get_running_loop().create_task(record())

    async def _watch(self, child: _Child, recording: asyncio.Task[None]) -> None:
        """Wait for the end of a process, whoever ends it, and forget it."""
        await child.process.wait()
        with contextlib.suppress(OSError):
            os.killpg(child.process.pid, signal.SIGKILL)  # what it may have left behind in its group
        await child.addressed.wait()
        await _close_pipes(child.process)
        child.close_log()
        if self._children.get(child.name) is child:
            del self._children[child.name]
        if child.idle is not None:
            child.idle.cancel()
        if child.chat is not None and child.users == 0:
            await child.chat.close()
        await asyncio.wait([recording])
        if self._processes is not None and recording.exception() is None:
            await self._processes.ended(child.process.pid)

    async def _stop(self, child: _Child) -> None:
        if self._children.get(child.name) is child:
            del self._children[child.name]  # nobody new comes to a child that is on its way out
        if child.process.stdin is not None:
            child.process.stdin.close()
        assert child.ended is not None
        try:
            async with asyncio.timeout(STOP_S):
                await asyncio.shield(child.ended)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)
            await child.ended

    async def _explained(self, child: _Child, failure: ProviderFailure) -> ProviderFailure:
        """A failure of the loopback connection in terms of the model's process."""
        if failure.kind == "context_overflow":
            window = f"{self._settings.context_length} tokens (local.context_length)"
            words = f"The conversation is longer than the local model's window of {window}: start a new session."
            return ProviderFailure("context_overflow", words, provider="local", status=failure.status)
        if failure.kind not in ("network", "incomplete"):
            return failure
        assert child.ended is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.shield(child.ended)
        code = child.process.returncode
        if code is None:
            return failure
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        words = child.last_words()
        said = f" Its last words: {words}" if words else ""
        return _failure(f"The local model's process {how}; it starts anew with the next request.{said}", retryable=True)


async def _close_pipes(process: asyncio.subprocess.Process) -> None:
    """Let go of the pipes to a process that has ended; the event loop does so when they are read to their end."""
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdout.read()
    process.stdin.close()
    with contextlib.suppress(ConnectionError):
        await process.stdin.wait_closed()


def _failure(message: str, *, retryable: bool = False) -> ProviderFailure:
    return ProviderFailure("local", message, provider="local", retryable=retryable)


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
