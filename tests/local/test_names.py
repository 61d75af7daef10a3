"""The generated names."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import hermes_local
import hermes_shell
from hermes_local import names

ROOT = Path(__file__).parents[2]


def test_the_generated_names_are_those_of_the_protocol() -> None:
    path = ROOT / "protocol" / "generate_local.py"
    spec = importlib.util.spec_from_file_location("generate_local", path)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert Path(names.__file__).read_text() == generator.source()


def test_every_method_that_the_shell_asks_for_exists() -> None:
    known = names.METHODS | names.NOTIFICATIONS
    for package in (hermes_local, hermes_shell):
        for path in Path(str(package.__file__)).parent.glob("*.py"):
            for used in re.findall(r'"(hermes/[a-zA-Z/]+)"', path.read_text()):
                assert used in known, f"{path.name} asks for {used}"


def test_the_version_is_the_packages() -> None:
    assert f'\nversion = "{hermes_local.__version__}"\n' in (ROOT / "pyproject.toml").read_text()
