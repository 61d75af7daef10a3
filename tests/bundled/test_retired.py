"""A7 and A14: plugins that are gone say where to, and cannot be enabled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plugin_home import PluginHome


@pytest.mark.parametrize(("id", "advice"), [("intake", "It moved to"), ("tool-fff", "search_files")])
def test_a_retired_plugin_is_listed_with_its_advice_and_cannot_be_enabled(tmp_path: Path, id: str, advice: str) -> None:
    home = PluginHome(tmp_path)
    [row] = [row for row in home.plugins.rows() if row.id == id]
    assert row.state == "retired"
    assert advice in row.detail
    home.enable(id)
    [fault] = home.run(home.plugins.load)
    assert fault.startswith(f"{id}: is retired: ")
    assert advice in fault
    assert home.estate.all() == (), "no tool is registered and none is overridden"


@pytest.mark.parametrize("id", ["intake", "tool-fff"])
def test_what_is_left_of_a_retired_plugin_is_a_warning(tmp_path: Path, id: str) -> None:
    home = PluginHome(tmp_path)
    assert [row.severity for row in home.plugins.findings() if row.plugin == id] == ["ok"]
    home.enable(id)
    assert [row.severity for row in home.plugins.findings() if row.plugin == id] == ["warn"]
    home.enable(**{id.replace("-", "_"): {"old": 1}})
    [row] = [row for row in home.plugins.findings() if row.plugin == id]
    assert (row.check, row.severity, row.detail.startswith("retired: ")) == ("links", "warn", True)
