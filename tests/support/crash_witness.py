"""A client that remembers everything it was told, until the daemon dies, and judges what the next daemon says."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.support.peer import Peer

Data = dict[str, Any]


class Witness:
    """One client over many daemons. What it saw: events by session and number, answers by key."""

    def __init__(self) -> None:
        self.events: dict[str, dict[int, tuple[str, Data]]] = {}
        self.highest: dict[str, int] = {}
        self.epochs: dict[str, str] = {}
        self.acknowledged: dict[str, tuple[Data, Data]] = {}
        self.texts: dict[str, str] = {}
        self.log: list[str] = []
        self.notes: list[tuple[str, Data]] = []
        self.paused: set[str] = set()
        self.alive = False
        self._peer: Peer | None = None
        self._next = 0
        self._answers: dict[int, Data] = {}
        self._submits: dict[int, Data] = {}

    def connect(self, path: str) -> None:
        """Attach to the daemon of now."""
        self.close()
        self._peer = Peer(path)
        self.alive = True
        self._answers.clear()
        self._submits.clear()
        capabilities = {"requests": ["permission"], "maxLatencyMs": 0}
        hello = {"protocolVersions": ["1.0"], "client": {"id": "witness"}, "capabilities": capabilities}
        self.ask("initialize", {"hermes": hello})

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()

    # --- talking ---

    def send(self, method: str, params: Data) -> int:
        """Ask and do not wait. A daemon that is gone takes nothing any more."""
        assert self._peer is not None
        self._next += 1
        frame = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        try:
            self._peer.send(frame)
        except OSError:
            self.alive = False
        return self._next

    def ask(self, method: str, params: Data) -> Data:
        """Ask and wait for the result; AssertionError with the error."""
        number = self.send(method, params)
        answer = self.answer(number)
        assert "result" in answer, (method, params, answer)
        result: Data = answer["result"]
        return result

    def answer(self, number: int) -> Data:
        """The frame that answers a request which was sent."""
        while number not in self._answers:
            assert self.hear(), "the daemon went before it answered"
        return self._answers.pop(number)

    def submit(self, session: str, text: str, **params: Any) -> int:
        """Send a message under a key of its own: its text."""
        given = {"sessionId": session, "input": [{"type": "text", "text": text}], "key": text, **params}
        self.texts[text] = session
        number = self.send("hermes/turn/submit", given)
        self._submits[number] = given
        return number

    def interrupt(self, session: str, queue: str) -> None:
        """Stop what runs, and remember who paused the queue."""
        if queue == "pause":
            self.paused.add(session)
        self.send("hermes/turn/interrupt", {"sessionId": session, "queue": queue})

    def subscribe(self, session: str, since: int | None = None) -> Data:
        params: Data = {"sessionId": session}
        if since is not None:
            params["since"] = {"epoch": self.epochs[session], "seq": since}
        subscribed = self.ask("hermes/session/subscribe", params)
        self.epochs[session] = subscribed["epoch"]
        return subscribed

    def hear(self) -> bool:
        """Take in one frame; False when the daemon is gone and nothing is left to read."""
        assert self._peer is not None
        try:
            frame = self._peer.receive()
        except (EOFError, ConnectionError):
            self.alive = False
            return False
        if frame.get("method") == "hermes/event":
            self._saw(frame["params"])
        elif frame.get("method") == "window/logMessage":
            self.log.append(frame["params"]["message"])
        elif frame.get("method") == "hermes/daemon/state":
            self.notes.append((frame["method"], frame["params"]))
        elif "method" not in frame:
            self._answers[frame["id"]] = frame
            given = self._submits.pop(frame["id"], None)
            if given is not None and "result" in frame:
                self.acknowledged[given["key"]] = (given, frame["result"])
        return True

    def note(self, method: str) -> Data:
        """The next notification of this name about the daemon."""
        while not any(name == method for name, _ in self.notes):
            assert self.hear(), f"the daemon went before {method}"
        index = next(number for number, (name, _) in enumerate(self.notes) if name == method)
        return self.notes.pop(index)[1]

    def hear_until(self, session: str, kind: str, **fields: Any) -> Data:
        """Take in frames until this session has such an event; its data."""
        while True:
            for number in sorted(self.events.get(session, {})):
                said, data = self.events[session][number]
                if said == kind and all(data.get(name) == value for name, value in fields.items()):
                    return data
            assert self.hear(), f"the daemon went before {kind} of {session}"

    def _saw(self, event: Data) -> None:
        session, number = event["sessionId"], event["seq"]
        self.epochs[session] = event["epoch"]
        self.highest[session] = max(number, self.highest.get(session, 0))
        if event["kind"] == "item.delta":
            return
        told = event["kind"], event["data"] | {"turnId": event.get("turnId")}
        known = self.events.setdefault(session, {}).setdefault(number, told)
        assert known == told, f"number {number} of {session} was given to two events: {known} and {told}"

    # --- judging ---

    def judge(self, session: str, journaled: dict[str, str]) -> None:
        """Everything that was acknowledged or seen of this session is there once, and nothing is open. `journaled` is
        the text of the items that were open on the disk of the killed daemon."""
        seen, highest = dict(self.events.get(session, {})), self.highest.get(session, 0)
        self.events[session] = {}
        subscribed = self.subscribe(session, since=0)
        assert subscribed["mode"] == "replay"
        while max(self.events[session], default=0) < subscribed["head"]:
            assert self.hear()
        replay = self.events[session]
        lost = [number for number in seen if number not in replay]
        assert not lost, f"events {lost} were seen and are gone: {[seen[number] for number in lost]}"
        for number, told in seen.items():
            assert replay[number] == told, f"number {number} meant {told} and means {replay[number]}"
        fresh = [number for number in replay if number not in seen and replay[number][1].get("status") == "lost"]
        assert all(number > highest for number in fresh), "a number that was seen was given again"
        self._judge_turns(replay)
        self._judge_items(session, replay, journaled)
        assert not self.ask("hermes/request/list", {"sessionId": session})["requests"]

    def _judge_turns(self, replay: dict[int, tuple[str, Data]]) -> None:
        order = [replay[number] for number in sorted(replay)]
        started = Counter(data["turnId"] for kind, data in order if kind == "turn.started")
        ended = Counter(data["turnId"] for kind, data in order if kind == "turn.ended")
        assert started == ended, "turns and their ends do not match"
        assert not started or max(started.values()) == 1
        asked = Counter(data["requestId"] for kind, data in order if kind == "request.opened")
        resolved = Counter(data["requestId"] for kind, data in order if kind == "request.resolved")
        assert asked == resolved

    def _judge_items(self, session: str, replay: dict[int, tuple[str, Data]], journaled: dict[str, str]) -> None:
        items = self.ask("hermes/session/items", {"sessionId": session, "limit": 1000})["items"]
        by_id = {item["itemId"]: item for item in items}
        assert len(by_id) == len(items)
        assert all(item["status"] != "inProgress" for item in items)
        begun = Counter(data["item"]["itemId"] for kind, data in replay.values() if kind == "item.started")
        done = Counter(data["item"]["itemId"] for kind, data in replay.values() if kind == "item.completed")
        assert not begun or max(begun.values()) == 1
        assert not done or max(done.values()) == 1, "an item was completed twice"
        for kind, data in replay.values():
            if kind == "item.completed":
                assert by_id[data["item"]["itemId"]] == data["item"]
        for item_id, text in journaled.items():
            item = by_id[item_id]
            kept = item.get("text") or (item.get("output") or {}).get("text", "")
            assert kept.startswith(text), f"{item_id}: {len(text)} characters were journaled, {len(kept)} are kept"
        queue = self.ask("hermes/queue/list", {"sessionId": session})
        said = Counter(item["text"] for item in items if item["type"] == "userMessage")
        waiting = Counter(block["text"] for entry in queue["queue"] for block in entry["input"])
        both = said + waiting
        for text, owner in self.texts.items():
            if owner == session:
                least = 1 if text in self.acknowledged else 0
                assert least <= both[text] <= 1, f"{text!r} is there {both[text]} times"
        if waiting:
            assert queue["paused"]
            codes = [data.get("code") for kind, data in replay.values() if kind == "notice"]
            assert session in self.paused or "queue.paused" in codes
            assert all(entry.get("kind", "turn") == "turn" for entry in queue["queue"])

    def repeat(self, session: str) -> None:
        """Send every acknowledged message again: each is known."""
        for given, result in list(self.acknowledged.values()):
            if given["sessionId"] == session:
                again = self.ask("hermes/turn/submit", given)
                assert again == {**result, "duplicate": True}
