"""A client's half of the protocol, small: the cursor rule of section 5 and the shipped fold, over a raw peer."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes_client import view as views
from hermes_client.view import View
from hermes_protocol.events import Event
from hermes_protocol.methods import Snapshot
from tests.support.live import Peer


class Follower:
    """Folds what a peer gets of one session. `desyncs` counts the times it was told to subscribe again."""

    def __init__(self, peer: Peer, session_id: str) -> None:
        self.peer, self.session_id = peer, session_id
        self.view = views.empty(session_id)
        self.epoch, self.last = "", 0
        self.kinds: list[str] = []
        self.views: list[tuple[int, View]] = []
        self.deltas = 0
        self._read = 0

    async def subscribe(self, *, since: tuple[str, int] | None = None, **params: Any) -> dict[str, Any]:
        """Subscribe, here or again; what an older subscription still sent is passed over."""
        cursor = {"since": {"epoch": since[0], "seq": since[1]}} if since is not None else {}
        call = {"sessionId": self.session_id, **cursor, **params}
        result: dict[str, Any] = await self.peer.request("hermes/session/subscribe", call)
        answer = next(index for index in range(len(self.peer.order) - 1, -1, -1)
                      if self.peer.order[index].get("result") is result)  # fmt: skip
        self._read = answer + 1
        self.epoch, self.last = result["epoch"], result["seq"]
        if result["mode"] == "snapshot":
            self.view = views.from_snapshot(msgspec.convert(result["snapshot"], Snapshot))
        return result

    def catch_up(self) -> None:
        """Fold the events that were read so far. AssertionError where the chain of `prev` is broken."""
        while self._read < len(self.peer.order):
            frame = self.peer.order[self._read]
            self._read += 1
            if frame.get("method") != "hermes/event" or frame["params"]["sessionId"] != self.session_id:
                continue
            event = msgspec.json.decode(msgspec.json.encode(frame["params"]), type=Event)
            assert (event.epoch, event.prev) == (self.epoch, self.last), (event.prev, self.last, event.kind)
            assert event.seq > event.prev
            self.last = event.seq
            self.kinds.append(event.kind)
            self.deltas += event.kind == "item.delta"
            self.view = views.apply(self.view, event)
            self.views.append((self.last, self.view))

    async def until(self, seq: int) -> View:
        """The view once everything up to `seq` (or what stands for it) is folded."""
        self.catch_up()
        while self.last < seq:
            await self.peer._read()
            self.catch_up()
        return self.view


def comparable(view: View) -> dict[str, Any]:
    """A view without what no event carries: counts, times and texts of the summary that only a snapshot knows."""
    fields: dict[str, Any] = msgspec.to_builtins(view)
    summary = fields.pop("session")
    fields["options"] = {"thinking": fields["options"].get("thinking")}  # the others were given when it was made
    fields["session"] = {name: summary.get(name) for name in ("sessionId", "cwd")}
    fields.pop("older_cursor", None)
    fields["requests"] = [{**row, "remainingMs": 0} for row in fields["requests"]]
    return fields
