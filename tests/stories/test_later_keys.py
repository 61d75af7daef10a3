"""A client of a later version says more than we know: every story goes on as if it did not."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.stories.replay import prepare, replay
from tests.stories.story import Story, read, stories
from tests.support.daemon_process import running_daemon
from tests.support.later_keys import padded_frame

EXAMPLES = 8
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=6,
)
# No name of JSON-RPC itself, and none that a story's matcher could take for its own.
NAMES = st.text(min_size=1, max_size=12).filter(
    lambda name: name not in ("jsonrpc", "id", "method", "params", "result", "error", "hermes")
)
NEW = st.dictionaries(NAMES, JSON, max_size=3)


def padded(story: Story, more: list[dict[str, Any]]) -> tuple[Story, int]:
    """The story with `more` spread over the objects that its clients say, and how many objects got some."""
    turns: Iterator[dict[str, Any]] = (more[at % len(more)] for at in range(1_000_000))
    given = 0

    def draw() -> dict[str, Any]:
        nonlocal given
        given += 1
        return _literal(next(turns))

    steps = (step if step.said is None else dataclasses.replace(step, said=padded_frame(step.said, draw))
             for step in story.steps)  # fmt: skip
    return dataclasses.replace(story, steps=tuple(steps)), given


def _literal(value: Any) -> Any:
    """As a story writes it: a text that begins with `$` would be a name."""
    if isinstance(value, dict):
        return {name: _literal(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_literal(below) for below in value]
    return f"${value}" if isinstance(value, str) and value.startswith("$") else value


@pytest.mark.parametrize("path", stories(), ids=lambda path: path.stem)
def test_unknown_keys_at_any_depth_change_nothing_of_the_conversation(path: Path) -> None:
    story = read(path)

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(st.lists(NEW, min_size=1, max_size=7).filter(any))
    def law(more: list[dict[str, Any]]) -> None:
        told, count = padded(story, more)
        assert count >= sum(step.said is not None for step in story.steps)
        with tempfile.TemporaryDirectory() as folder:
            home, work = Path(folder), Path(folder, "work")
            work.mkdir()
            with running_daemon(home, prepare(told, home, work)) as daemon:
                replay(told, daemon.socket_path, work)

    law()


def test_the_law_would_see_a_key_that_is_known() -> None:
    """Were the padding itself not to reach the params, the law would hold of anything."""
    params = {"sessionId": "s", "key": "k", "input": [{"type": "text", "text": "t"}], "options": {}}
    frame = {"jsonrpc": "2.0", "id": 1, "method": "hermes/turn/submit", "params": params}
    got = padded_frame(frame, lambda: {"new": 1, "text": "not mine", "cwd": "free"})
    assert got["new"] == got["params"]["new"] == got["params"]["options"]["new"] == 1
    assert got["params"]["input"] == [{"new": 1, "cwd": "free", "type": "text", "text": "t"}]
    env = {"jsonrpc": "2.0", "id": 1, "method": "hermes/session/create", "params": {"cwd": "/", "env": {"A": "b"}}}
    assert padded_frame(env, lambda: {"new": 1})["params"]["env"] == {"A": "b"}
