"""Plays the clients of a story against a daemon that listens on a socket, and compares what it says."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from tests.stories.story import PASSED_OVER, Chain, Mismatch, Names, Step, Story
from tests.support.peer import Framing, Peer

EVENT = "hermes/event"


class Actor:
    """One client of a story: its connection, and what it was told and has not used yet."""

    def __init__(self, path: str, framing: Framing) -> None:
        self.peer = Peer(path, framing)
        self.answers: list[dict[str, Any]] = []
        self.notifications: deque[dict[str, Any]] = deque()
        self.chains: dict[str, Chain] = {}
        self._subscribing: dict[Any, str] = {}

    def say(self, frame: dict[str, Any]) -> None:
        """Send a frame."""
        if frame.get("method") == "hermes/session/subscribe":
            self._subscribing[frame.get("id")] = frame["params"].get("sessionId", "")
        self.peer.send(frame)

    def take(self) -> dict[str, Any]:
        """Receive one frame into `answers` or `notifications`; Mismatch when an event does not continue its chain."""
        frame: dict[str, Any] = self.peer.receive()
        if "method" not in frame:
            session = self._subscribing.pop(frame.get("id"), None)
            if session is not None and "result" in frame:
                self.chains[session] = Chain(frame["result"]["epoch"], frame["result"]["seq"])
            self.answers.append(frame)
            return frame
        if frame["method"] == EVENT:
            event = frame["params"]
            chain = self.chains.get(event["sessionId"])
            if chain is None:
                raise Mismatch(f"an event of {event['sessionId']}, which is not subscribed: {event['kind']}")
            chain.follow(event)
        self.notifications.append(frame)
        return frame

    def answer(self, request_id: Any) -> dict[str, Any]:
        """The answer with this id."""
        while True:
            for index, frame in enumerate(self.answers):
                if frame.get("id") == request_id and type(frame.get("id")) is type(request_id):
                    return self.answers.pop(index)
            self.take()

    def notification(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """The next notification that a story tells of, or that `wanted` names."""
        while True:
            while not self.notifications:
                self.take()
            frame = self.notifications.popleft()
            if told(frame) or named(frame) == named(wanted):
                return frame

    def unheard(self) -> list[dict[str, Any]]:
        """What has arrived, should have been told, and was not."""
        while self.peer.pending():
            self.take()
        return [*self.answers, *filter(told, self.notifications)]


def told(frame: dict[str, Any]) -> bool:
    """Whether a story has a line for this notification in any case."""
    return frame["method"] == EVENT and frame["params"]["kind"] not in PASSED_OVER


def named(frame: dict[str, Any]) -> tuple[Any, Any]:
    """What tells notifications apart: the method, and the kind of an event."""
    return frame.get("method"), frame.get("params", {}).get("kind")


def prepare(story: Story, home: Path, work: Path) -> str:
    """Write the story's files into the working folder; the text of the daemon's config.yaml."""
    names = Names(work=str(work))
    for name, text in story.files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(names.fill(text), encoding="utf-8")
    return msgspec.json.encode(names.fill(story.config)).decode() if story.config else ""


def replay(story: Story, path: str, work: Path, framing: Framing = "newline") -> None:
    """Play the story against the daemon at the socket `path`. Mismatch names the story's line."""
    names = Names(work=str(work))
    actors: dict[str, Actor] = {}
    try:
        for step in story.steps:
            try:
                _play(step, actors, names, path, framing)
            except (Mismatch, EOFError) as error:
                raise Mismatch(f"{story.name}, line {step.line}, {step.client}: {error}") from None
        for client, actor in actors.items():
            if unheard := actor.unheard():
                raise Mismatch(f"{story.name}, at the end: {client} was also told {unheard}")
    finally:
        for actor in actors.values():
            actor.peer.close()


def _play(step: Step, actors: dict[str, Actor], names: Names, path: str, framing: Framing) -> None:
    if step.client not in actors:
        actors[step.client] = Actor(path, framing)
    actor = actors[step.client]
    if step.said is not None:
        actor.say(names.fill(step.said))
    elif step.raw is not None:
        actor.peer.send_body(names.fill(step.raw).encode())
    elif step.close:
        actors.pop(step.client).peer.close()
    elif step.deltas is not None:
        _deltas(step.deltas, actor, names)
    elif step.closed:
        _closed(actor)
        actors.pop(step.client).peer.close()
    elif step.heard is not None and "method" in step.heard:
        names.compare(step.heard, actor.notification(step.heard))
    elif step.heard is not None:
        names.compare(step.heard, actor.answer(names.fill(step.heard.get("id"))))


def _deltas(expected: dict[str, Any], actor: Actor, names: Names) -> None:
    text, offset = "", None
    wanted = names.fill(expected["text"])
    while len(text) < len(wanted) or offset is None:
        frame = actor.notification({"method": EVENT, "params": {"kind": "item.delta"}})
        event = frame["params"]
        if event.get("kind") != "item.delta":
            raise Mismatch(f"expected deltas up to {wanted!r}, got {text!r} and then {event}")
        names.compare(expected["itemId"], event.get("itemId"), "$.itemId")
        data = event["data"]
        start = expected.get("offset", 0) if offset is None else offset
        names.compare({"field": expected.get("field", "text"), "offset": start}, data, "$.data")
        text += data["text"]
        offset = start + len(data["text"])
    names.compare(expected["text"], text, "$.text")


def _closed(actor: Actor) -> None:
    try:
        while True:
            actor.take()
    except (EOFError, ConnectionResetError):
        return
