"""docs/howto/papercuts.md: its settings are the plugin's, its commands and its plugins work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from hermes_daemon.api import GateFriction
from hermes_daemon.api.testing import install
from hermes_daemon.bundled.papercuts.command import parse
from tests.support.plugin_home import BUNDLED

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "papercuts.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_page_lists_every_setting_with_its_default() -> None:
    schema = yaml.safe_load((BUNDLED / "papercuts" / "plugin.yaml").read_text())["config_schema"]
    told = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", TEXT, re.MULTILINE))
    assert {name: yaml.safe_load(value) for name, value in told.items()} == {
        name: field["default"] for name, field in schema.items()
    }


def test_every_command_of_the_page_is_understood() -> None:
    commands = re.findall(r"`hermes papercuts ?([a-z]*(?: --?\w+)?(?: ID)?)`", TEXT)
    assert len(commands) >= 6
    for words in commands:
        parse(words)


def test_the_configuration_of_the_page_fits() -> None:
    for block in blocks("yaml"):
        plugins = yaml.safe_load(block)["plugins"]
        settings = plugins.get("entries", {}).get("papercuts", {}).get("settings", {})
        with install(BUNDLED / "papercuts", settings) as plugin:
            assert plugin.tool("papercuts", mode="friction").text


class Sink:
    def __init__(self) -> None:
        self.told: list[GateFriction] = []

    async def report(self, friction: GateFriction) -> str:
        self.told.append(friction)
        return "filed"


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = []
    for at, code in enumerate(blocks("python")):
        folder = tmp_path / f"example-{at}"
        folder.mkdir()
        (folder / "plugin.yaml").write_text(f"name: example-{at}\n")
        (folder / "plugin.py").write_text(code)
        made.append(folder)
    return made


def test_the_plugins_of_the_page_work(folders: list[Path]) -> None:
    gate, counter = folders
    sink = Sink()
    with install(gate, services={"papercuts.friction": sink}) as plugin:
        plugin.emit("my_gate.held", session_id="s")
        assert sink.told == [GateFriction("my-gate", "repeated_hold", "tests", "held 3 times")]
    with install(gate) as plugin:
        plugin.emit("my_gate.held", session_id="s")
    with install(counter) as plugin:
        assert plugin.command("seen") == "seen 1 times"
        assert plugin.command("seen") == "seen 2 times"
