"""The part of docs/howto/plugins.md about answers without a model, followed word by word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_plugins_howto import followed
from tests.support.local_shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as shell:
        yield shell


def test_the_plugin_that_answers_without_a_model_works_at_the_first_try(shell: Shell) -> None:
    said = followed(shell, "One that answers without a model")
    assert "front-desk is loaded" in said[1]
    assert said[2] == "pong\n"
