"""One session with scripted turns behind a LocalDaemon: enough of the protocol for a client that asks one question."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.local_daemon import Frame, Peer

Event = tuple[str, str | None, Frame]  # kind, itemId, data


def message(item_id: str, text: str = "", status: str = "completed", model: str = "scripted/x") -> Frame:
    """An agentMessage item."""
    return {"itemId": item_id, "type": "agentMessage", "turnId": "t1", "status": status, "text": text, "model": model}


def streamed(item_id: str, *pieces: str, final: str | None = None, model: str = "scripted/x") -> list[Event]:
    """An answer in pieces, completed with `final` or with what the pieces make."""
    events: list[Event] = [("item.started", item_id, {"item": message(item_id, "", "inProgress")})]
    offset = 0
    for piece in pieces:
        events.append(("item.delta", item_id, {"field": "text", "text": piece, "offset": offset}))
        offset += len(piece)
    text = "".join(pieces) if final is None else final
    return [*events, ("item.completed", item_id, {"item": message(item_id, text, model=model)})]


ENDED: Event = ("turn.ended", None, {"status": "completed"})


class Turns:
    """Serves session "s1" whose turn "t1" has these events. Every call of `answer` is one frame.

    `cut_after` hangs up once, after so many events. `hold_after` sends no event past so many until an interrupt or
    `release` comes. Replays from `since` as the protocol says; without it an empty snapshot.
    """

    def __init__(self, events: Sequence[Event], cut_after: int | None = None, hold_after: int | None = None) -> None:
        self.events = list(events)
        self.cut_after = cut_after
        self.hold_after = hold_after
        self.options: Frame = {"unattended": "wait"}
        self.submitted: list[Frame] = []
        self.interrupted = threading.Event()
        self.holding = threading.Event()
        self.override: dict[str, Callable[[Peer, Frame], None]] = {}
        self._live = False

    def answer(self, peer: Peer, frame: Frame) -> None:
        method = frame["method"]
        if method in self.override:
            self.override[method](peer, frame)
        else:
            getattr(self, "_" + method.rpartition("/")[2])(peer, frame)

    def _create(self, peer: Peer, frame: Frame) -> None:
        self.options = frame["params"].get("options", {})
        peer.result(frame, {"session": {"sessionId": "s1"}, "seq": 1, "epoch": "e"})

    def _get(self, peer: Peer, frame: Frame) -> None:
        if frame["params"]["sessionId"] != "s1":
            peer.error(frame, -32040, "session_not_found", "no such session")
            return
        peer.result(frame, {"session": {"sessionId": "s1"}, "options": self.options, "epoch": "e", "head": 1})

    def _list(self, peer: Peer, frame: Frame) -> None:
        peer.result(frame, {"sessions": [{"sessionId": "s1", "cwd": frame["params"].get("cwd", "")}]})

    def _setOption(self, peer: Peer, frame: Frame) -> None:
        self.options = {**self.options, frame["params"]["id"]: frame["params"]["value"]}
        peer.result(frame, {"options": self.options, "rev": 1, "seq": 1})

    def _subscribe(self, peer: Peer, frame: Frame) -> None:
        since = frame["params"].get("since", {"seq": 1})["seq"]
        mode = "replay" if "since" in frame["params"] else "snapshot"
        snapshot = {"items": [], "inflight": [], "queue": []} if mode == "snapshot" else None
        peer.result(frame, {"mode": mode, "epoch": "e", "seq": since, "head": 1, "snapshot": snapshot})
        if self._live:
            self._play(peer, since)

    def _submit(self, peer: Peer, frame: Frame) -> None:
        again = any(earlier["key"] == frame["params"]["key"] for earlier in self.submitted)
        self.submitted.append(frame["params"])
        peer.result(frame, {"disposition": "started", "turnId": "t1", "seq": 2, "duplicate": again})
        if not self._live:
            self._live = True
            self._play(peer, 1)

    def _interrupt(self, peer: Peer, frame: Frame) -> None:
        self.interrupted.set()
        peer.result(frame, {"status": "interrupting", "turnId": "t1", "seq": 99})
        held = self.hold_after or 0
        self._event(peer, held + 1, ("turn.ended", None, {"status": "interrupted"}))

    def _play(self, peer: Peer, since: int) -> None:
        for number, event in enumerate(self.events, 1):
            if number + 1 <= since:
                continue
            if self.hold_after is not None and number > self.hold_after:
                self.holding.set()
                return
            self._event(peer, number, event)
            if number == self.cut_after:
                self.cut_after = None
                peer.hang_up()
                return

    def _event(self, peer: Peer, number: int, event: Event) -> None:
        kind, item_id, data = event
        params: dict[str, Any] = {
            "sessionId": "s1",
            "epoch": "e",
            "seq": number + 1,
            "prev": number,
            "ts": "",
            "turnId": "t1",
        }
        if item_id is not None:
            params["itemId"] = item_id
        peer.event(**params, kind=kind, data=data)
