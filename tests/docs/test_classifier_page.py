"""The page about the classifier and the READMEs of its plugins, held to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml

import hermes_daemon.bundled
from docs.generate import ROOT
from hermes_daemon.api.testing import install
from hermes_daemon.bundled.classifier_core.client import Settings
from hermes_daemon.bundled.classifier_core.declines import REASONS
from hermes_daemon.config import load

BUNDLED = Path(hermes_daemon.bundled.__file__).parent
PAGE = (ROOT / "docs/howto/classifier.md").read_text(encoding="utf-8")
READMES = [BUNDLED / "classifier_core" / "README.md", BUNDLED / "shadow_gate" / "README.md"]
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE + "".join(each.read_text("utf-8") for each in READMES), re.DOTALL)


def test_every_setting_stands_on_the_page_with_its_default_and_in_the_manifest() -> None:
    manifest = yaml.safe_load((BUNDLED / "classifier_core" / "plugin.yaml").read_text("utf-8"))["config_schema"]
    told = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", PAGE, re.MULTILINE))
    fields = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    assert {name: row["default"] for name, row in manifest.items()} == fields
    assert set(told) == set(fields)
    for name, default in fields.items():
        assert told[name].strip("`") == ("empty" if default == "" else f"{default:g}" if name == "breaker_reset"
                                         else str(default))  # fmt: skip


def test_every_reason_of_a_decline_stands_on_the_page() -> None:
    assert tuple(re.findall(r"^\| `(\w+)` \| [a-z].* \|$", PAGE.partition("declined as")[2], re.MULTILINE)) == REASONS


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_configuration_with_which_the_plugin_loads(example: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(example)
    loaded = load(str(tmp_path), {})
    assert (loaded.errors, loaded.warnings) == ((), ())
    for id, entry in yaml.safe_load(example)["plugins"]["entries"].items():
        with install(BUNDLED / id.replace("-", "_"), entry["settings"]) as plugin:
            assert plugin.ctx.plugin_id == id
            assert plugin.estate.commands


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_the_python_of_the_readmes_compiles(readme: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, str(readme), "exec")
