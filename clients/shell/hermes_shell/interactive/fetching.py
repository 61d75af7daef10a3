"""The embedded model where it is not here yet: what is missing is said when a chat opens, and /pull fetches it."""

from __future__ import annotations

import asyncio
import os
import sys

from hermes_client import Connection
from hermes_protocol import methods as m
from hermes_shell.interactive.chat import Chat
from hermes_shell.interactive.printable import one_line

FETCHED = "smollm2"
LINE_CHARS = 200


async def missing_line(connection: Connection, model: str) -> str:
    """The line about a local model that cannot answer yet and what helps, or "" when it can."""
    if not model.startswith("local/"):
        return ""
    listed = await connection.request("hermes/models/list", m.ModelsParams(), m.ModelsResult, resend=True)
    row = next((row for row in listed.models if row.id == model and row.state == "missing"), None)
    if row is None:
        return ""
    better = "Any other model: /model PROVIDER/NAME (docs/howto/models.md)."
    if model == f"local/{FETCHED}" and row.note.startswith("hermes models pull"):
        return (
            f"No model is configured. /pull fetches {model}, 93 MB,\n"
            f"small: it shows that everything works, it does not code.\n{better}"
        )
    return f"{model} cannot answer yet: {one_line(row.note, LINE_CHARS)}.\n{better}"


async def pull(chat: Chat, words: str) -> None:
    """Run `hermes models pull` for this daemon's home, saying its lines as they come."""
    status = await chat.connection.request("hermes/daemon/status", None, m.StatusResult, resend=True)
    chat.say(f"fetching {words or FETCHED} …")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "hermes_daemon", "models", "pull", words or FETCHED),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "HERMES_HOME": status.home, "HERMES_PROFILE": ""},
    )
    assert child.stdout is not None
    try:
        async for line in child.stdout:
            if text := one_line(line.decode("utf-8", "replace"), LINE_CHARS).strip():
                chat.say(f"  {text}")
        code = await child.wait()
    finally:
        if child.returncode is None:
            child.terminate()
            await child.wait()
    chat.say(f"{words or FETCHED} is here" if code == 0 else "nothing was fetched", "info" if code == 0 else "error")
