"""A ToolContext for tests: it records what a tool tells the daemon."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_daemon.core.ports import Answered, Ask, ToolOutcome
from hermes_daemon.core.settings import Settings
from hermes_daemon.tools.builtin import builtin_tools
from hermes_daemon.tools.registry import Registry


class RecordedProcesses:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str]] = []

    async def started(self, pid: int, marker: str, command: str) -> None:
        self.calls.append(("started", pid, marker))

    async def ended(self, pid: int) -> None:
        self.calls.append(("ended", pid, ""))


class Context:
    """The values a tool sees; `said` holds its progress, `heard` is set with every piece of it."""

    def __init__(self, cwd: Path, *, settings: Settings | None = None, env: Mapping[str, str] | None = None) -> None:
        self.session_id, self.turn_id, self.call_id = "s1", "t1", "c1"
        self.cwd = str(cwd)
        self.env: Mapping[str, str] = {"PATH": os.defpath, "HOME": str(cwd)} if env is None else env
        self.settings = settings or Settings()
        self.processes = RecordedProcesses()
        self.said: list[str] = []
        self.heard = asyncio.Event()
        self.asked: list[Ask] = []
        self.answer = Answered("policy")

    def progress(self, text: str) -> None:
        self.said.append(text)
        self.heard.set()

    transforms_output = False

    async def transform_output(self, command: str, output: str, code: int | None) -> str:
        return output

    async def ask(self, request: Ask) -> Answered:
        self.asked.append(request)
        return self.answer


class Bench:
    """The built-in tools over one folder and one session: `bench.run("read_file", path="a")`."""

    def __init__(
        self, cwd: Path, *, settings: Settings | None = None, env: Mapping[str, str] | None = None, home: str = ""
    ) -> None:
        self.tools: Registry = builtin_tools(home)
        self.context = Context(cwd, settings=settings, env=env)

    async def call(self, name: str, **args: Any) -> ToolOutcome:
        tool = self.tools.get(name)
        assert tool is not None
        return await tool.run(args, self.context)

    def run(self, name: str, **args: Any) -> ToolOutcome:
        """Call it to its end in an event loop of its own."""
        return asyncio.run(self.call(name, **args))
