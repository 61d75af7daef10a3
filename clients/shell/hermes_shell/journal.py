"""`hermes sessions events`: a session's events as lines of JSON, what was and with --follow what comes."""

from __future__ import annotations

import time
from typing import Any

from hermes_local import spawn
from hermes_local.address import Address
from hermes_local.arguments import UsageError
from hermes_local.codec import encode
from hermes_local.connection import Connection, ConnectionLost, RpcError
from hermes_shell.answer import STDERR, STDOUT, write_all
from hermes_shell.session_ids import REQUEST_S, find

Given = dict[str, Any]
NAME = "hermes sessions events"
PAGE = 500
WAIT_MS = 60_000
PAUSE_S = 0.2


def show(given: Given, address: Address) -> int:
    """Print the events behind --after, oldest first, each as hermes/event carries it.

    With --follow it goes on, also over a restarted daemon, until it is interrupted or the session is deleted.
    """
    pull = Pull(address, given["session"], int(given["after"] or 0), given["epoch"] or "")
    while True:
        try:
            with spawn.connect_or_start(address, NAME) as connection:
                pull.find(connection)
                pull.all(connection)
                while given["follow"]:
                    pull.wait(connection)
                    pull.all(connection)
            return 0
        except (ConnectionLost, RpcError, spawn.DaemonUnavailable) as error:
            if not given["follow"] or not pull.begun or not _passes(error):
                raise
            write_all(STDERR, f"hermes: {error}; connecting again\n")
            time.sleep(PAUSE_S)


class Pull:
    """A place in the journal of one session. `begun` = something was read, so that it is worth going on."""

    def __init__(self, address: Address, session: str, after: int, epoch: str) -> None:
        if after and not epoch:
            raise UsageError("--after needs --epoch: numbers count within an epoch, which each event names")
        self.begun = False
        self._session = session
        self._session_id = ""
        self._epoch = epoch
        self._after = after

    def find(self, connection: Connection) -> None:
        """Look up what the command line named, and the epoch where it named none."""
        self._session_id = self._session_id or find(connection, self._session)
        if not self._epoch:
            got = connection.request("hermes/session/get", {"sessionId": self._session_id}, REQUEST_S)
            self._epoch = str(got["epoch"])

    def all(self, connection: Connection) -> None:
        """Print everything there is behind this place."""
        while True:
            params: Given = {"sessionId": self._session_id, "epoch": self._epoch, "after": self._after, "limit": PAGE}
            page = self._asked(connection, params)
            self.begun = True
            for event in page["events"]:
                write_all(STDOUT, encode(event) + "\n")
                self._after = int(event["seq"])
            if not page.get("truncated") or not page["events"]:
                return

    def wait(self, connection: Connection) -> None:
        """Return when there is more, or after a while."""
        params = {"sessionId": self._session_id, "until": "seq", "seq": self._after + 1, "timeoutMs": WAIT_MS}
        connection.request("hermes/session/wait", params, REQUEST_S + WAIT_MS / 1000)

    def _asked(self, connection: Connection, params: Given) -> Given:
        try:
            return dict(connection.request("hermes/session/events", params, REQUEST_S))
        except RpcError as refused:
            oldest = int(refused.data.get("oldest") or 0)
            later = oldest > 1 and not params["after"]
            if refused.kind != "replay_truncated" or self.begun or not later:
                raise
            # Asked for everything, and the beginning is kept no longer: what is kept, and a word about it.
            write_all(STDERR, f"hermes: the events before {oldest} are not kept any more\n")
            self._after = oldest - 1
            return self._asked(connection, {**params, "after": self._after})


def _passes(error: Exception) -> bool:
    """Whether the daemon, or the one that takes its place, will answer later."""
    return not isinstance(error, RpcError) or error.kind in ("draining", "overloaded")
