"""The embedded model: llama.cpp in a child process, so that it can neither block nor take down the daemon.

A child is started with the first request for its model and stopped when nobody asked for a while. It listens on a
loopback port with a random key and is asked like any other endpoint of the chat completions format. It dies with the
daemon: its standard input ends, and on Linux the kernel sees to it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from hermes_daemon.core.ports import Chunk, ModelInfo, Processes, ProviderFailure, Request
from hermes_daemon.core.settings import LocalSettings, ProviderSettings
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_daemon.providers.local_process import EngineError, EngineProcess
from hermes_daemon.providers.model_files import find_model

CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "local_child.py")
STALL_S = 600.0  # a long prompt on a slow machine, behind another session's
EXPLAIN_S = 1.0  # how long a process whose connection broke has to be found dead
MAX_OUTPUT = 1024  # small models that lose the thread would else fill their window
# Small models wander less at a low temperature; the penalties keep them out of loops that fill the whole output, and
# the seed makes one question get one answer.
SAMPLING = {
    "temperature": 0.2,
    "top_p": 0.9,
    "presence_penalty": 0.4,
    "repeat_penalty": 1.2,
    "seed": 7,
    "cache_prompt": True,
}


class _Served:
    """A running model and how many requests it serves at the moment."""

    def __init__(self, process: EngineProcess, chat: HttpProvider) -> None:
        self.process, self.chat = process, chat
        self.users = 0
        self.idle: asyncio.TimerHandle | None = None

    def stay(self) -> None:
        """Forget the plan to stop it."""
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None


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
        self._served: dict[str, _Served] = {}
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
            max_output=self._max_output(),
            tools=False,
            note=note,
        )

    def path(self, name: str) -> str | None:
        """The file of a model, None when it is not here."""
        return find_model(self._models_dir, name, self._settings.model)

    def pid(self, name: str) -> int | None:
        """The process that serves a model now."""
        served = self._served.get(name)
        return served.process.pid if served is not None else None

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """See ports.Provider. The first call starts the process; a failure to start names the reason."""
        name = request.model.removeprefix("local/")
        served = await self._acquire(name)
        limit = request.max_output or self._max_output()
        asked = msgspec.structs.replace(request, model=name, max_output=limit, tools=())
        try:
            async with aclosing(served.chat.stream(asked)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ProviderFailure as failure:
            raise await self._explained(served.process, failure) from failure
        finally:
            await self._release(name, served)

    def retire(self) -> None:
        """Stop each child as soon as nobody uses it: other settings have taken over."""
        self._settings = msgspec.structs.replace(self._settings, idle_s=0.0)
        for name, served in list(self._served.items()):
            self._stop_idle(name, served)

    async def close(self) -> None:
        """Stop all children. Safe to call twice; a later request starts one again."""
        await asyncio.gather(*(self._stop(name, served) for name, served in list(self._served.items())))
        if self._stopping:
            await asyncio.gather(*self._stopping)

    def _max_output(self) -> int:
        return min(MAX_OUTPUT, self._settings.context_length // 2)

    async def _acquire(self, name: str) -> _Served:
        async with self._starting:
            served = self._served.get(name)
            if served is None or served.process.returncode is not None:
                served = await self._start(name)
                self._served[name] = served
            served.users += 1
            served.stay()
            return served

    async def _release(self, name: str, served: _Served) -> None:
        served.users -= 1
        if served.users > 0:
            return
        if served.process.returncode is not None or self._served.get(name) is not served:
            await served.chat.close()
        else:
            loop = asyncio.get_running_loop()
            served.idle = loop.call_later(self._settings.idle_s, self._stop_idle, name, served)

    def _stop_idle(self, name: str, served: _Served) -> None:
        if served.users == 0:
            task = asyncio.get_running_loop().create_task(self._stop(name, served))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    async def _stop(self, name: str, served: _Served) -> None:
        if self._served.get(name) is served:
            del self._served[name]  # nobody new comes to a child that is on its way out
        served.stay()
        await served.process.stop()
        await served.chat.close()

    async def _start(self, name: str) -> _Served:
        path = self.path(name)
        if path is None:
            advice = (
                f"`hermes models pull {name}` fetches it" if name == "smollm2" else "`hermes models pull` fetches it"
            )
            raise _failure(f"The local model {name} is not in {self._models_dir}: {advice}.")
        key = os.urandom(24).hex()
        orders = {"model": path, "context_length": self._settings.context_length, "api_key": key}
        orders["threads"] = self._settings.threads or _threads()
        try:
            process = await EngineProcess.start(
                self._command,
                orders,
                title=f"local model {name}",
                log_path=self._log_path,
                timeout_s=self._settings.start_timeout,
                processes=self._processes,
                on_end=lambda: self._gone(name),
            )
        except EngineError as error:
            if error.no_engine:
                raise _failure("The embedded model needs an extra: pip install 'hermes-daemon[local]'.") from error
            raise _failure(f"The local model {name} ({path}) cannot be used: {error}.") from error
        # The engine closes a connection behind each stream: one that looks kept may be gone the next moment.
        close = {"connection": "close"}
        settings = ProviderSettings(
            base_url=f"{process.url}/v1", api_key_env="key", stall_timeout=STALL_S, headers=close
        )
        return _Served(process, HttpProvider("local", settings, lambda _: key, extra=SAMPLING))

    def _gone(self, name: str) -> None:
        """A process ended: forget it, unless another one has already taken its place."""
        served = self._served.get(name)
        if served is not None and served.process.returncode is not None:
            del self._served[name]
            served.stay()

    async def _explained(self, process: EngineProcess, failure: ProviderFailure) -> ProviderFailure:
        """A failure of the loopback connection in terms of the model's process."""
        if failure.kind == "context_overflow":
            window = f"{self._settings.context_length} tokens (local.context_length)"
            advice = "shorten it or start a new session"
            words = f"The conversation is longer than the local model's window of {window}: {advice}."
            return ProviderFailure("context_overflow", words, provider="local", status=failure.status)
        if failure.kind not in ("network", "incomplete") or not await process.ended(EXPLAIN_S):
            return failure
        code = process.returncode or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        words = process.last_words()
        said = f" Its last words: {words}" if words else ""
        return _failure(f"The local model's process {how}; it starts anew with the next request.{said}", retryable=True)


def _threads() -> int:
    """All processors but one. The engine's threads wait for each other busily: where something else takes a processor
    from one of them, all slow down, on two processors more than tenfold."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(usable - 1, 1)


def _failure(message: str, *, retryable: bool = False) -> ProviderFailure:
    return ProviderFailure("local", message, provider="local", retryable=retryable)
