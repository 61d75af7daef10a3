"""Plugins come, work, and go without a trace."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import Host, Refused
from hermes_daemon.core.settings import PluginEntry, PluginsSettings
from hermes_daemon.middleware.registry import Registry
from hermes_daemon.middleware.styles import transform
from hermes_daemon.plugins.estate import Estate
from hermes_daemon.plugins.host import Plugins
from hermes_daemon.tools.registry import Registry as Tools

GREETER = """
    def register(ctx):
        ctx.register_tool("greet", lambda args: f"hello {args['who']}",
                          schema={"type": "object", "properties": {"who": {"type": "string"}}})
        ctx.register_hook("transform_llm_output", lambda response_text: response_text + ctx.get_config("mark", "!"))
        ctx.register_command("greet", lambda arguments: "hello", "greets")
        ctx.register_system_prompt_section("manners", "Greet people.")
        ctx.offer_service("greeting", object())
        ctx.subscribe("met", lambda **_: None)
"""


class Home:
    """A home with plugins, and the host over it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = PluginsSettings()
        self.registry = Registry()
        self.environment: dict[str, str] = {}
        self.written: list[tuple[str, Any]] = []

        def host() -> Host:
            raise Refused("there is no engine here")

        self.estate = Estate(
            self.registry,
            Tools(),
            host=host,
            secret=self.environment.get,
            redact=lambda text: text.replace("sk-secret", "***"),
            set_config=lambda path, value: self.written.append((path, value)),
        )
        self.plugins = Plugins(self.estate, lambda: (str(path / "bundled"), str(path), ""), lambda: self.settings)

    def add(self, id: str, code: str, manifest: str = "", *, enabled: bool = True, **settings: Any) -> Path:
        folder = self.path / "plugins" / id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugin.yaml").write_text(textwrap.dedent(manifest) or f"name: {id}\n")
        (folder / "plugin.py").write_text(textwrap.dedent(code))
        if enabled:
            entries = {**self.settings.entries, id: PluginEntry(settings)}
            self.settings = PluginsSettings(
                (*self.settings.enabled, id), entries=entries, load_timeout_seconds=self.settings.load_timeout_seconds
            )
        return folder

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def story() -> Any:
            try:
                return await work()
            finally:
                await self.plugins.close()

        return asyncio.run(story())

    def state(self, id: str) -> tuple[str, str]:
        [row] = [row for row in self.plugins.rows() if row.id == id]
        return row.state, row.detail


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def output(home: Home, text: str) -> str:
    return await transform(home.registry.snapshot("output"), text, None, lambda _, error: pytest.fail(str(error)))


def test_a_plugin_works_and_leaves_nothing_behind(home: Home) -> None:
    home.add("greeter", GREETER, "name: Greeter\nconfig_schema: {mark: {type: string, default: '?'}}\n")

    async def story() -> None:
        assert await home.plugins.load() == ()
        assert await output(home, "hi") == "hi?"
        assert [tool.card.name for tool in home.estate.all()] == ["greet"]
        assert home.estate.prompt_sections() == ("Greet people.",)
        [row] = home.plugins.rows()
        assert (row.state, row.tools, row.points, row.commands) == ("loaded", ("greet",), ("output",), ("greet",))
        await home.plugins.close()
        assert home.registry.rows() == []
        assert home.estate.all() == ()
        assert home.estate.commands == ()
        assert home.estate.prompt_sections() == ()
        assert home.estate.services.get("greeting") is None
        assert not [name for name in sys.modules if name.startswith("hermes_plugins_greeter")]

    home.run(story)


def test_a_plugin_is_off_until_it_is_enabled_and_disabled_wins(home: Home) -> None:
    home.add("greeter", GREETER, enabled=False)

    async def story() -> None:
        await home.plugins.load()
        assert home.state("greeter") == ("disabled", "")
        home.settings = PluginsSettings(("greeter",), ("greeter",))
        await home.plugins.load()
        assert home.state("greeter")[0] == "disabled"
        home.settings = PluginsSettings(("greeter",))
        await home.plugins.load()
        assert home.state("greeter")[0] == "loaded"

    home.run(story)


def test_what_was_registered_before_a_failure_is_undone_and_others_load(home: Home) -> None:
    home.add("broken", GREETER + "        raise ValueError('no sk-secret')\n")
    home.add("greeter", GREETER.replace('"greet"', '"greet2"').replace('"greeting"', '"greeting2"'))

    async def story() -> None:
        faults = await home.plugins.load()
        assert faults == ("broken: ValueError: no *** (plugin.py, line 10)",)
        assert home.state("broken")[0] == "failed"
        assert {link.owner for link in home.registry.rows()} == {"greeter"}
        assert [tool.card.name for tool in home.estate.all()] == ["greet2"]

    home.run(story)


def test_a_reload_reads_the_files_again(home: Home) -> None:
    folder = home.add("greeter", GREETER)

    async def story() -> None:
        await home.plugins.load()
        assert await output(home, "hi") == "hi!"
        (folder / "plugin.py").write_text(textwrap.dedent(GREETER.replace('"!"', '"!!!"')))
        assert await home.plugins.reload() == ()
        assert await output(home, "hi") == "hi!!!"
        assert len(home.registry.rows()) == 1

    home.run(story)


def test_plugins_load_behind_those_they_need_and_go_with_them(home: Home) -> None:
    needs = "name: user\nrequires_plugins: [base]\n"
    home.add("auser", "def register(ctx):\n    assert ctx.get_service('base') == 1\n", needs)
    home.add("base", "def register(ctx):\n    ctx.offer_service('base', 1)\n")

    async def story() -> None:
        assert await home.plugins.load() == ()
        home.settings = PluginsSettings(("auser",))
        assert await home.plugins.reload(["base"]) == ("auser: needs base, which is not enabled",)

    home.run(story)


def test_a_plugin_that_takes_too_long_is_given_up_and_can_register_nothing_later(home: Home) -> None:
    home.settings = PluginsSettings(load_timeout_seconds=0.05)
    home.add(
        "slow",
        """
        import threading
        gate = threading.Event()
        late = threading.Event()

        def register(ctx):
            import sys
            sys.slow_plugin = (gate, late)
            gate.wait(30)
            ctx.register_hook("transform_llm_output", lambda response_text: "late")
            late.set()
        """,
    )

    async def story() -> None:
        assert await home.plugins.load() == ("slow: took longer than 0.05 s to load",)
        gate, late = sys.slow_plugin  # type: ignore[attr-defined]
        gate.set()
        await asyncio.to_thread(late.wait, 30)
        assert home.registry.rows() == []

    home.run(story)


@pytest.mark.parametrize(
    ("code", "manifest", "said"),
    [
        ("x = 1\n", "", "has no function register(ctx)"),
        ("def register(:\n", "", "SyntaxError"),
        ("import no_such_module\n", "", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def register(ctx): pass\n", "name: [1]\n", "Expected `str`, got `array` - at `$.name`"),
        ("def register(ctx): pass\n", "name: 'x\n", "line 2"),
        ("def register(ctx): pass\n", "- a\n", "expected fields such as `name: …`, got list"),
        ("def register(ctx): pass\n", "api_version: 9\n", "this daemon speaks 1, the plugin wants 9"),
        ("def register(ctx): pass\n", "requires_env: [MY_KEY]\n", "MY_KEY is not set"),
        ("def register(ctx): pass\n", "retired: use other\n", "is retired: use other"),
        ("def register(ctx): pass\n", "config_schema: {n: {type: int, required: true}}\n",
         "settings.n: is required: a whole number"),
        ("def register(ctx): ctx.register_hook('no_such', print)\n", "", "no middleware point is called 'no_such'"),
    ],
)  # fmt: skip
def test_a_plugin_that_cannot_be_used_says_why(home: Home, code: str, manifest: str, said: str) -> None:
    home.add("odd", code, manifest)
    [fault] = home.run(home.plugins.load)
    assert said in fault
    assert home.state("odd")[0] in ("failed", "retired")


def test_settings_are_checked_at_their_path_and_wrong_ones_keep_the_plugin_out(home: Home) -> None:
    schema = "config_schema: {pairs: {type: integer, default: 3, minimum: 1}}\n"
    home.add("gate", "def register(ctx): pass\n", schema, pairs=0, pears=1)
    [fault] = home.run(home.plugins.load)
    assert fault == "gate: settings.pairs: expected a whole number of at least 1, got 0"
    [row] = home.plugins.rows()
    assert row.problems == (
        "$.plugins.entries.gate.settings.pears: there is no such setting, did you mean 'pairs'?",
        "$.plugins.entries.gate.settings.pairs: expected a whole number of at least 1, got 0",
    )


def test_an_unknown_enabled_plugin_and_a_dangling_link_are_said(home: Home) -> None:
    (home.path / "plugins").mkdir()
    (home.path / "plugins" / "gone").symlink_to(home.path / "nowhere")
    home.settings = PluginsSettings(("gone", "never"))
    faults = home.run(home.plugins.load)
    assert faults == ("never: there is no such plugin", f"gone: {home.path}/plugins/gone: leads nowhere")


def test_a_second_plugin_of_the_same_id_is_not_loaded_in_its_place(home: Home) -> None:
    home.add("greeter", GREETER)
    twin = home.add("other", GREETER.replace('"!"', '"twin"'), "id: greeter\n", enabled=False)

    async def story() -> None:
        await home.plugins.load()
        assert await output(home, "hi") == "hi!"
        rows = [row for row in home.plugins.rows() if row.id == "greeter"]
        assert [row.state for row in rows] == ["loaded", "failed"]
        assert rows[1].detail.startswith(f"{twin}: takes the id 'greeter' of the home plugin")

    home.run(story)


def test_safe_mode_loads_nothing(home: Home) -> None:
    home.add("greeter", GREETER)
    home.settings = PluginsSettings(("greeter",), safe_mode=True)
    assert home.run(home.plugins.load) == ()
    assert home.state("greeter")[0] == "enabled"


def test_a_taken_tool_name_and_a_taken_slot_are_refused(home: Home) -> None:
    home.add("first", "def register(ctx):\n    ctx.register_context_engine(1)\n")
    home.add("second", "def register(ctx):\n    ctx.register_context_engine(2)\n")
    assert home.run(home.plugins.load) == ("second: the slot context_engine is first's already",)


def test_a_plugin_writes_its_own_settings_only(home: Home) -> None:
    home.add("keeper", "def register(ctx):\n    ctx.set_config('a', 1)\n    ctx.state.set('seen', [1])\n")
    home.run(home.plugins.load)
    assert home.written == [("plugins.entries.keeper.settings.a", 1)]
    assert (home.path / "plugin-data" / "keeper" / "state.json").read_text() == '{"seen":[1]}'
