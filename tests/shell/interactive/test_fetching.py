"""What a chat says where the embedded model is missing."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hermes_protocol import methods as m
from hermes_shell.interactive.fetching import missing_line
from tests.support.client_face import daemon_and_chat


def line(model: str, *rows: m.ModelRow) -> str:
    async def run() -> str:
        async with daemon_and_chat() as (daemon, chat, _):
            result = msgspec.to_builtins(m.ModelsResult(rows, "local/smollm2"))
            daemon.extra["hermes/models/list"] = lambda _: result
            return await missing_line(chat.connection, model)

    return asyncio.run(run())


def row(state: str, note: str, name: str = "smollm2") -> m.ModelRow:
    return m.ModelRow(id=f"local/{name}", provider="local", state=state, note=note)


def test_a_model_that_can_be_fetched_is_offered() -> None:
    assert "/pull fetches local/smollm2" in line("local/smollm2", row("missing", "hermes models pull smollm2"))


@pytest.mark.parametrize(
    ("note", "name"), [("pip install 'hermes-daemon[local]'", "smollm2"), ("hermes models pull big", "big")]
)
def test_what_else_is_missing_is_said_as_the_daemon_says_it(note: str, name: str) -> None:
    said = line(f"local/{name}", row("missing", note, name))
    assert note in said
    assert "/model PROVIDER/NAME" in said


def test_a_model_that_can_answer_is_not_spoken_of() -> None:
    assert line("local/smollm2", row("ready", "")) == ""
    assert line("lab/m") == ""
