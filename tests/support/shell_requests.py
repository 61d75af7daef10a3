"""Open questions of every kind, and a daemon's side that takes their answers."""

from __future__ import annotations

from typing import Any

from tests.support.local_daemon import Frame, LocalDaemon, Peer

PERMISSION: dict[str, Any] = {
    "requestId": "r-perm",
    "sessionId": "s1",
    "kind": "permission",
    "toolCall": {"id": "c", "name": "terminal", "title": "rm x", "args": "{}"},
    "options": [
        {"id": "yes", "kind": "allow_once", "label": "Allow once"},
        {"id": "ses", "kind": "allow_session", "label": "Allow in this session"},
        {"id": "no", "kind": "deny", "label": "Deny"},
    ],
}
CLARIFY: dict[str, Any] = {
    "requestId": "r-clar",
    "sessionId": "s1",
    "kind": "clarify",
    "questions": [
        {"id": "db", "text": "Which?", "choices": ["postgres", "sqlite"], "freeText": False},
        {"id": "days", "text": "Days?", "choices": ["mon", "tue"], "multi": True},
    ],
}
SECRET: dict[str, Any] = {
    "requestId": "r-secr",
    "sessionId": "s1",
    "kind": "secret",
    "prompt": "The password",
    "name": "SUDO_PASSWORD",
    "running": True,
    "remainingMs": 42_500,
}
FORM: dict[str, Any] = {
    "requestId": "r-form",
    "sessionId": "s1",
    "kind": "form",
    "prompt": "Where?",
    "schema": {
        "type": "object",
        "required": ["port"],
        "properties": {"port": {"type": "integer", "minimum": 1}, "host": {"type": "string", "default": "localhost"}},
    },
}


class Asked:
    """Answers what the commands about questions ask."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows = rows

    def answer(self, peer: Peer, frame: Frame) -> None:
        results: dict[str, Any] = {
            "hermes/session/get": {"session": {"sessionId": "s1"}, "options": {}},
            "hermes/request/list": {"requests": list(self.rows)},
            "hermes/session/subscribe": {"mode": "snapshot", "epoch": "e", "seq": 1},
            "hermes/request/answer": {"status": "accepted", "seq": 2, "outcome": "taken"},
        }
        peer.result(frame, results[frame["method"]])


def answered(daemon: LocalDaemon) -> Any:
    """The answer that was sent, None for none."""
    sent = [frame["params"] for frame in daemon.frames if frame["method"] == "hermes/request/answer"]
    return sent[0]["answer"] if sent else None
