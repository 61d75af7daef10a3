"""One turn followed to its end over a connection that may break: subscribe, submit with a key, read, reconnect."""

from __future__ import annotations

import os
import time

from hermes_local import connection as wire
from hermes_local import spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hermes_local.address import Address
    from hermes_local.connection import Connection

ANSWER_S = 30.0
RECONNECT_S = 30.0
RECONNECT_PAUSE_S = 0.2
INTERRUPT_S = 15.0


class TurnLost(Exception):
    """The turn's end was not seen and cannot be any more; the message says why."""


class Turn:
    """Submits one input to a session and gives its events in order, each once, across reconnects.

    `see(event)` gets every hermes/event of the session; `say(text)` a line for people about the connection. The
    cursor rule is protocol section 5's: an event whose `prev` is not the last one seen means subscribing again.
    """

    def __init__(
        self,
        address: Address,
        connection: Connection,
        client_id: str,
        session_id: str,
        see: Callable[[dict[str, Any]], None],
        say: Callable[[str], None],
        name: str = "hermes chat -q",
    ) -> None:
        self.address = address
        self.connection = connection
        self.client_id = client_id
        self.session_id = session_id
        self.turn_id = ""
        self.name = name
        self._queue_id = ""
        self._moved = False  # what steered too late has a turn of its own
        self.ended = False
        self._see = see
        self._say = say
        self._key = wire.new_id()
        self._submit: dict[str, Any] = {}
        self._sent = False
        self._epoch = ""
        self._last = 0
        self._deadline: float | None = None

    def submit(
        self, text: str, options: dict[str, Any], cursor: tuple[str, int] | None, *, when_busy: str = ""
    ) -> dict[str, Any]:
        """Subscribe and submit `text`, both sent ahead of their answers; the receipt.

        `cursor` (epoch, seq) of a session just created spares the snapshot.
        """
        content = {"type": "text", "text": text}
        self._submit = {"sessionId": self.session_id, "input": [content], "key": self._key}
        if options:
            self._submit["options"] = options
        if when_busy:
            self._submit["whenBusy"] = when_busy
        depth = os.environ.get("HERMES_AGENT_DEPTH", "")
        if depth.isdecimal():  # a tool call of an agent started us: the daemon counts how many stand behind one another
            self._submit["depth"] = int(depth)
        if cursor is not None:
            self._epoch, self._last = cursor
        while True:
            try:
                return self._attach()
            except wire.ConnectionLost as error:
                self._reconnect(str(error))

    def follow(self, timeout: float | None) -> None:
        """Read until this turn has ended. TimeoutError after `timeout` seconds, TurnLost when it cannot be known."""
        self._deadline = None if timeout is None else time.monotonic() + timeout
        while not self.ended:
            try:
                left = None if self._deadline is None else self._deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError("the turn takes longer than it may")
                self._take(self.connection.notification(left))
            except wire.ConnectionLost as error:
                self._reconnect(str(error))
                self._attach_again()

    def interrupt(self, reason: str) -> None:
        """Ask the daemon to end the turn and wait for the end, 15 s at most."""
        if self.ended or not self._sent:
            return
        if not self.turn_id:  # it was submitted, the receipt was not read yet: the same key gives it again
            receipt = self.connection.request("hermes/turn/submit", self._submit, INTERRUPT_S)
            self.turn_id = str(receipt["turnId"])
        params = {"sessionId": self.session_id, "turnId": self.turn_id, "reason": reason}
        self.connection.request("hermes/turn/interrupt", params, INTERRUPT_S)
        self.follow(INTERRUPT_S)

    def _attach(self) -> dict[str, Any]:
        subscribed = self.connection.send("hermes/session/subscribe", self._subscription())
        self._sent = True
        submitted = self.connection.send("hermes/turn/submit", self._submit)
        self._subscribed(self.connection.answer(subscribed, ANSWER_S))
        receipt: dict[str, Any] = self.connection.answer(submitted, ANSWER_S)
        self._queue_id = str(receipt.get("queueId") or "")
        if not self._moved:
            self.turn_id = str(receipt["turnId"])
        return receipt

    def _attach_again(self) -> None:
        while True:
            try:
                self._attach()
                return
            except wire.ConnectionLost as error:
                self._reconnect(str(error))

    def _subscription(self) -> dict[str, Any]:
        params: dict[str, Any] = {"sessionId": self.session_id}
        if self._epoch:
            params["since"] = {"epoch": self._epoch, "seq": self._last}
        return params

    def _subscribed(self, result: dict[str, Any]) -> None:
        self._epoch, self._last = str(result["epoch"]), int(result["seq"])
        snapshot = result.get("snapshot")
        if result.get("mode") == "snapshot" and snapshot and self.turn_id:
            self._catch_up(snapshot)

    def _catch_up(self, snapshot: dict[str, Any]) -> None:
        """A snapshot in the middle of our turn: its items replace the events that are not kept any more."""
        ours = [item for item in snapshot.get("items", ()) if item.get("turnId") == self.turn_id]
        for item in ours:
            self._see({"kind": "item.completed", "turnId": self.turn_id, "data": {"item": item}})
        for open_item in snapshot.get("inflight", ()):
            item = {**open_item["item"], open_item["field"]: open_item["text"]}
            if item.get("turnId") == self.turn_id:
                self._see({"kind": "item.started", "turnId": self.turn_id, "data": {"item": item}})
        running = (snapshot.get("turn") or {}).get("turnId") == self.turn_id
        queued = any(entry.get("turnId") == self.turn_id for entry in snapshot.get("queue", ()))
        if not running and not queued:
            raise TurnLost("the turn ended while this command was cut off and its outcome is no longer in the journal")

    def _take(self, note: dict[str, Any]) -> None:
        params = note["params"]
        if note["method"] == "hermes/event":
            self._event(params)
        elif note["method"] == "hermes/desync" and params.get("sessionId") == self.session_id:
            self._resubscribe()
        elif note["method"] == "hermes/daemon/state" and params.get("state") != "ready":
            self._say(f"the daemon is {params.get('state')}: {params.get('reason') or 'it was asked to stop'}")

    def _event(self, event: dict[str, Any]) -> None:
        if event.get("sessionId") != self.session_id:
            return
        if event["epoch"] != self._epoch or event["prev"] != self._last:
            self._resubscribe()
            return
        self._last = event["seq"]
        self._see(event)
        if event["kind"] == "turn.steerRequeued" and event["data"].get("queueId") == self._queue_id:
            self.turn_id, self._moved = str(event["data"]["newTurnId"]), True
        if event["kind"] == "turn.ended" and event.get("turnId") == self.turn_id:
            self.ended = True

    def _resubscribe(self) -> None:
        # Whatever was still on its way belongs to the old subscription; the answer comes after it.
        result = self.connection.request("hermes/session/subscribe", self._subscription(), ANSWER_S)
        self.connection.drop_events(self.session_id)
        self._subscribed(result)

    def _reconnect(self, why: str) -> None:
        """A new connection to the daemon, or to the one that takes its place; DaemonUnavailable after 30 s."""
        self._say(f"{why}; connecting again")
        self.connection.close()
        deadline = time.monotonic() + RECONNECT_S
        while True:
            try:
                self.connection = spawn.connect_or_start(self.address, self.name, client_id=self.client_id)
                return
            except spawn.DaemonUnavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RECONNECT_PAUSE_S)
