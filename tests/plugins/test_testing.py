"""The harness for authors of plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_daemon.api.testing import PluginFailed, a_request, install

CODE = """
def register(ctx):
    def broken(request, **_):
        raise ValueError("no")

    async def ask(args, session_id):
        return (await ctx.dispatch_tool(session_id, "other", {})).text + str(ctx.get_service("helper"))

    ctx.register_middleware("llm_request", broken)
    ctx.register_tool("ask", ask, schema={"type": "object", "properties": {}})
    ctx.register_command("keep", lambda arguments: ctx.state.set("a", arguments) or ctx.state.get("a"))
    ctx.register_command("write", lambda arguments: ctx.set_config("level", arguments))
    ctx.subscribe("met", lambda who: ctx.state.set("met", who))
    ctx.register_command("met", lambda arguments: ctx.state.get("met"))
    ctx.register_command("key", lambda arguments: ctx.secret("KEY"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plugin.yaml").write_text("name: sample\nid: sample\nconfig_schema: {level: {type: string}}\n")
    (tmp_path / "plugin.py").write_text(CODE)
    return tmp_path


def test_a_callable_that_fails_is_the_tests_failure(folder: Path) -> None:
    with install(folder) as plugin, pytest.raises(PluginFailed, match="llm_request: ValueError: no"):
        plugin.fold("llm_request", a_request())


def test_tools_services_secrets_state_and_events_work_as_in_a_daemon(folder: Path) -> None:
    with install(folder, services={"helper": 7}, secrets={"KEY": "k"}) as plugin:
        plugin.host.tools["other"] = lambda args: "answer "
        assert plugin.tool("ask").text == "answer 7"
        assert plugin.command("keep", "x") == "x"
        plugin.command("write", "high")
        assert plugin.written == [("plugins.entries.sample.settings.level", "high")]
        plugin.emit("met", who="Ada")
        assert plugin.command("met") == "Ada"
        assert plugin.command("key") == "k"
        with pytest.raises(KeyError, match="no tool 'nothing'"):
            plugin.tool("nothing")


def test_unloading_takes_everything_back(folder: Path) -> None:
    with install(folder) as plugin:
        plugin.unload()
        assert plugin.estate.commands == ()
        assert plugin.registry.rows() == []


@pytest.mark.parametrize(
    ("code", "said"),
    [("def register(ctx): raise KeyError('x')\n", "sample: KeyError: 'x'"), ("y = 1\n", "has no function register")],
)
def test_a_plugin_that_cannot_be_loaded_says_why(folder: Path, code: str, said: str) -> None:
    (folder / "plugin.py").write_text(code)
    with pytest.raises(PluginFailed, match=said), install(folder):
        pass


def test_settings_are_checked(folder: Path) -> None:
    with pytest.raises(PluginFailed, match=r"settings\.level: expected text, got 5"), install(folder, {"level": 5}):
        pass
