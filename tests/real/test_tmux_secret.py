"""Secrets and forms on a real terminal, against a daemon's side that asks for them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from hermes_local.address import resolve
from hermes_protocol import methods as m
from tests.support.client_peer import FakeDaemon
from tests.support.client_tmux import HERMES, Desk, Pane, absent, desk

pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(absent()), reason=absent())]
SECRET = "hunter2 is long"


@pytest.fixture
def here() -> Iterator[Desk]:
    with desk() as made:
        yield made


def asked(here: Desk, act: Callable[[FakeDaemon, Pane], Awaitable[None]], **environ: str) -> None:
    """Open a chat on a FakeDaemon that stands where this home's daemon would, and act."""

    async def run() -> None:
        address = resolve(here.environ)
        os.makedirs(address.runtime_dir, mode=0o700, exist_ok=True)
        daemon = FakeDaemon(address.socket_path)
        daemon.extra["hermes/session/delete"] = lambda _: m.Empty()
        await daemon.start()
        try:
            words = (*HERMES, "chat", "--session", "s1")
            pane = await asyncio.to_thread(here.tmux.open, *words, cwd=here.work, environ=environ)
            await daemon.asked("hermes/session/subscribe")
            await act(daemon, pane)
        finally:
            # First the chat, which would else start a real daemon in the place of this one.
            await asyncio.to_thread(here.tmux.close)
            await daemon.stop()

    asyncio.run(run())


async def answer(daemon: FakeDaemon, times: int = 1) -> Any:
    return (await daemon.asked("hermes/request/answer", times))["answer"]


def open_question(daemon: FakeDaemon, kind: Any, **fields: Any) -> None:
    daemon.journal.start_turn("go")
    daemon.journal.ask_people(kind, **fields)
    daemon.flush()


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_a_secret_is_typed_unseen_and_kept_nowhere(here: Desk, term: str) -> None:
    async def act(daemon: FakeDaemon, pane: Pane) -> None:
        open_question(daemon, "secret", prompt="The password of sudo", name="SUDO_PASSWORD")
        await asyncio.to_thread(pane.wait, "? The password of sudo")
        await asyncio.to_thread(pane.enter, SECRET)
        assert await answer(daemon) == {"value": SECRET}
        shown = await asyncio.to_thread(pane.wait, "The password of sudo: answered by you")
        assert "hunter" not in shown
        daemon.journal.end_turn()
        daemon.flush()
        await asyncio.to_thread(pane.enter, "an ordinary message")
        await daemon.asked("hermes/turn/submit")
        await asyncio.to_thread(pane.wait, "an ordinary message")
        for folder, _, names in os.walk(here.home):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    assert b"hunter" not in file.read(), name

    asked(here, act, TERM=term)


def test_a_form_is_filled_in_and_what_does_not_fit_asked_again(here: Desk) -> None:
    schema = {
        "type": "object",
        "required": ["port"],
        "properties": {"port": {"type": "integer", "minimum": 1}, "tls": {"type": "boolean", "default": True}},
    }

    async def act(daemon: FakeDaemon, pane: Pane) -> None:
        open_question(daemon, "form", prompt="Where does it listen?", form_schema=schema)
        await asyncio.to_thread(pane.wait, "port (1 of 2)")
        await asyncio.to_thread(pane.enter, "zero")
        await asyncio.to_thread(pane.wait, "expected a whole number, got 'zero'")
        await asyncio.to_thread(pane.enter, "8080")
        await asyncio.to_thread(pane.wait, "y or n, Enter takes y")
        await asyncio.to_thread(pane.press, "Enter")
        assert await answer(daemon) == {"values": {"port": 8080, "tls": True}}

    asked(here, act)


def test_an_empty_line_declines_a_secret(here: Desk) -> None:
    async def act(daemon: FakeDaemon, pane: Pane) -> None:
        open_question(daemon, "secret", name="TOKEN")
        await asyncio.to_thread(pane.wait, "A value for TOKEN is needed")
        await asyncio.to_thread(pane.press, "Enter")
        assert await answer(daemon) == {"decline": True}

    asked(here, act)
