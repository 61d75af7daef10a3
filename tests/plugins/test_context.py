"""The context: from any thread, and nothing after the end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import Refused
from hermes_daemon.plugins.context import PluginContext
from hermes_daemon.plugins.manifest import Manifest
from hermes_daemon.plugins.state import PluginState
from tests.plugins.test_host import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def context(home: Home, id: str = "one") -> PluginContext:
    return PluginContext(home.estate, Manifest(id=id, name=id), {}, frozenset(), PluginState(str(home.path / id)))


def test_registrations_from_many_threads_are_all_there_and_all_go(home: Home) -> None:
    contexts = [context(home, f"p{number}") for number in range(6)]
    start = threading.Barrier(len(contexts) + 1)

    def register(ctx: PluginContext) -> None:
        start.wait()
        for number in range(50):
            name = f"{ctx.plugin_id}-{number}"
            ctx.register_tool(name, lambda args: "", schema={"type": "object"})
            ctx.register_hook("output", lambda response_text: None)
            ctx.register_command(name, lambda arguments: "")
            ctx.offer_service(name, number)
            ctx.subscribe("event", lambda: None)

    threads = [threading.Thread(target=register, args=(ctx,)) for ctx in contexts]
    for thread in threads:
        thread.start()
    start.wait()
    while any(thread.is_alive() for thread in threads):
        len(home.estate.all())  # the loop reads while they write
    assert len(home.estate.tools) == len(home.estate.commands) == len(home.registry.rows()) == 300
    for ctx in contexts:
        assert ctx.close() == []
    assert (home.estate.tools, home.estate.commands, home.registry.rows()) == ((), (), [])
    assert home.estate.services.get("p0-1") is None


def test_what_registers_while_the_plugin_goes_leaves_nothing(home: Home) -> None:
    ctx = context(home)

    class Closing(str):
        """A point's name that ends the plugin when it is looked up: between the first look and the registration."""

        def __hash__(self) -> int:
            ctx.close()
            return super().__hash__()

    ctx.on(Closing("output"), lambda value, context: None)
    assert home.registry.rows() == []


def test_a_plugin_that_is_gone_asks_nothing_of_the_engine(home: Home) -> None:
    ctx = context(home)
    ctx.close()
    for call in (ctx.dispatch_tool("s", "t", {}), ctx.inject_message("s", "hi")):
        with pytest.raises(Refused, match="one was unloaded"):
            asyncio.run(call)


def test_a_task_begins_from_the_thread_that_registers_and_ends_with_the_plugin(home: Home) -> None:
    home.add("worker", """
        import asyncio
        import threading

        def register(ctx):
            ctx.offer_service("thread", threading.current_thread().name)
            began, ended = asyncio.Event(), asyncio.Event()
            ctx.offer_service("events", (began, ended))

            async def work():
                began.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()

            ctx.spawn_task(work())
        """)  # fmt: skip

    async def story() -> None:
        await home.plugins.load()
        began, ended = home.estate.services.get("events")
        assert home.estate.services.get("thread") != threading.current_thread().name
        await asyncio.wait_for(began.wait(), 20)
        await home.plugins.reload(["worker"])
        await asyncio.wait_for(ended.wait(), 20)

    home.run(story)


def test_the_time_of_hooks_is_the_settings(home: Home) -> None:
    home.estate.hook_seconds = lambda: 7.0
    ctx = context(home)
    ctx.register_hook("post_tool_call", lambda **_: None)
    ctx.register_hook("pre_tool_call", lambda **_: None, timeout=2.0)
    times: dict[str, Any] = {link.point: link.timeout_s for link in home.registry.rows()}
    assert times == {"post_tool_call": 7.0, "pre_tool_call": 2.0}
