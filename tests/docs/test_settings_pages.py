import re
from pathlib import Path

import pytest

from docs import generate
from hermes_daemon.config import load
from hermes_daemon.config.loading import OVERRIDES
from protocol.generate import write

GUIDE = (generate.ROOT / "docs/configuration.md").read_text(encoding="utf-8")


def test_every_setting_is_in_the_guide_and_the_reverse() -> None:
    told = re.findall(r"^\| `([a-z_]+(?:\.[^`]+)?)` \|", GUIDE, re.MULTILINE)
    assert told == list(generate.setting_keys())


def test_the_reference_is_what_the_types_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert write(generate.outputs(), generate.ROOT, ["--check"], None) == 0, capsys.readouterr().out


def test_the_variables_that_win_are_told() -> None:
    assert set(OVERRIDES) <= set(re.findall(r"^\| `(HERMES_\w+)` \|", GUIDE, re.MULTILINE))


def test_the_example_in_the_guide_is_a_valid_configuration(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert example is not None
    (tmp_path / "config.yaml").write_text(example[1])
    loaded = load(str(tmp_path), {})
    assert not loaded.errors
    assert not loaded.warnings
    assert loaded.settings.providers["lab"].models == ("small-coder",)
