"""The plugin in its host: the service that all share, the tool, the command, and a stand-in for tests of others."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import hermes_daemon.bundled
from hermes_daemon.api.testing import Installed, PluginFailed, install
from hermes_daemon.providers.web import Web
from tests.support.live import live
from tests.support.system_one import SystemOneServer, status

FOLDER = Path(hermes_daemon.bundled.__file__).parent / "classifier_core"
QUESTION = {"safe": {"type": "noul", "instructions": "Is it safe?", "criteria": None}}


def client(plugin: Installed) -> Any:
    return plugin.estate.services.get("classifier_core")


def command(plugin: Installed, arguments: str = "") -> tuple[str, int]:
    answer: tuple[str, int] = plugin.command("classifier-status", arguments, kind="cli")
    return answer


def test_A1_1_two_plugins_get_the_same_client_and_their_calls_stand_side_by_side(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bundled").mkdir(parents=True)
    (home / "bundled" / "classifier_core").symlink_to(FOLDER)
    for name in ("one", "two"):
        folder = home / "plugins" / name
        folder.mkdir(parents=True)
        (folder / "plugin.yaml").write_text(f"name: {name}\nrequires_plugins: [classifier-core]\n")
        (folder / "plugin.py").write_text(
            "def register(ctx):\n"
            f"    ctx.offer_service('seen_by_{name}', [ctx.get_service('classifier_core')])\n"
            "    async def look(arguments):\n"
            f"        return repr(await ctx.get_service('classifier_core').ask('{name}', arguments, {QUESTION!r}))\n"
            f"    ctx.register_cli_command('look-{name}', look)\n"
        )

    async def story() -> None:
        async with SystemOneServer() as server:
            entries = {"classifier-core": {"settings": {"endpoint": server.url, "timeout": 20}}}
            config = {"plugins": {"enabled": ["classifier-core", "one", "two"], "entries": entries}}
            async with live(str(home), config=json.dumps(config)) as running:
                peer = await running.peer()
                services = running.room.guests.estate.services
                assert services.get("seen_by_one")[0] is services.get("seen_by_two")[0] is not None
                assert server.requests == []
                for name in ("one", "two", "two"):
                    run = {"name": f"look-{name}", "kind": "cli", "arguments": "some text"}
                    assert "noul=0.75" in (await peer.request("hermes/command/run", run))["text"]
                run = {"name": "classifier-status", "kind": "cli", "arguments": "--json"}
                answer = await peer.request("hermes/command/run", run)
                callers = json.loads(answer["text"])["callers"]
                assert {name: row["accepted"] for name, row in callers.items()} == {"one": 1, "two": 2}
                assert answer.get("exitCode", 0) == 0

    asyncio.run(story())


def test_A1_5_without_an_endpoint_the_command_fails_from_the_first_declined_call_on() -> None:
    with install(FOLDER) as plugin:
        assert command(plugin)[1] == 0
        assert plugin.run(client(plugin).ask("one", "text", QUESTION)) is None
        for _ in range(2):
            text, code = command(plugin)
            assert code == 1
            assert "endpoint  not configured (systemone)" in text
            assert "one: 0 accepted; declined: not_configured 1 (last: not_configured: the setting endpoint" in text


def test_an_open_breaker_makes_the_command_fail_until_it_closes() -> None:
    with install(FOLDER, {"endpoint": "http://127.0.0.1:9", "breaker_failures": 1}, http=Web()) as plugin:
        assert plugin.run(client(plugin).ask("one", "text", QUESTION)) is None
        text, code = command(plugin)
        assert code == 1
        assert "breaker   open, 1 of 1 failures in a row" in text
        assert "one request may try in" in text


class _Context:
    session_id = turn_id = call_id = cwd = ""


def test_A1_9_only_a_probe_asks_for_the_health_and_shows_whether_a_model_is_there(tmp_path: Path) -> None:
    (tmp_path / "bundled").mkdir()
    (tmp_path / "bundled" / "classifier_core").symlink_to(FOLDER)

    async def story() -> None:
        async with SystemOneServer(status(500)) as server:
            entries = {"classifier-core": {"settings": {"endpoint": server.url, "timeout": 20}}}
            config = {"plugins": {"enabled": ["classifier-core"], "entries": entries}}
            async with live(str(tmp_path), config=json.dumps(config)) as running:
                estate = running.room.guests.estate
                [tool] = estate.tools
                row = estate.command("cli", "classifier-status")
                assert row is not None

                async def called(**args: bool) -> dict[str, Any]:
                    context: Any = _Context()
                    found: dict[str, Any] = json.loads((await tool.run(args, context)).text)
                    return found

                assert "probe" not in await called()
                assert "probe" not in await called(probe=False)
                assert server.requests == []
                server.health = (200, {"status": "ok", "model": None})
                found = await called(probe=True)
                assert found["breaker"]["state"] == "closed"
                assert found["probe"] == {"reachable": True, "model": None, "problem": "the server names no model"}
                server.health = (200, {"model": "small"})
                text, code = await row.handler("--probe")
                assert "service   reachable, model small" in text
                assert code == 0
                assert [(each.method, each.path) for each in server.requests] == [("GET", "/health")] * 2

    asyncio.run(story())


def test_the_heuristic_backend_needs_nothing_and_always_says_the_same() -> None:
    with install(FOLDER, {"backend": "heuristic"}) as plugin:
        heads = {"team": {"labels": {"billing": "invoices and refunds", "technical": "crashes and errors"}}}
        for _ in range(2):
            found = plugin.run(client(plugin).classify("one", "My invoices are wrong, I want refunds", heads))
            assert found == {"team": "billing"}
        assert command(plugin, "--probe")[1] == 0


def test_words_that_are_no_arguments_end_with_two() -> None:
    with install(FOLDER) as plugin:
        assert command(plugin, "--everything") == ("usage: hermes classifier-status [--probe] [--json]", 2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"endpoint": "localhost"}, r"settings\.endpoint: expected an address"),
        ({"backend": "oracle"}, r"settings\.backend: expected one of systemone, openai_chat, heuristic"),
        ({"breaker_failures": 0}, r"settings\.breaker_failures: expected a whole number of at least 1"),
        ({"timeout": True}, r"settings\.timeout: expected a number"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_by_name(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(PluginFailed, match=words), install(FOLDER, settings):
        pass
