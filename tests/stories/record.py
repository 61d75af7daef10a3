"""Makes a story of an outline by playing it against a daemon: python -m tests.stories.record OUTLINE STORY"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.stories.replay import EVENT, Actor, prepare, told
from tests.stories.story import TIME, Names, Story
from tests.support.daemon_process import running_daemon

NAMED = {
    "sessionId": "session",
    "turnId": "turn",
    "newTurnId": "turn",
    "itemId": "item",
    "requestId": "request",
    "queueId": "queue",
    "compactionId": "compaction",
    "callId": "call",
    "blobId": "blob",
    "connectionId": "connection",
    "epoch": "epoch",
}
VARYING: dict[str, Any] = {
    **dict.fromkeys(
        ("seq", "prev", "head", "durationMs", "remainingMs", "inputTokens", "outputTokens", "clients"), "$int"
    ),
    **dict.fromkeys(("uptimeS", "monotonicMs", "exitsInS", "occupancyPct"), "$number"),
    **dict.fromkeys(("bootId", "buildId", "schemaHash", "version", "incident"), "$text"),
    "features": ["$rest"],
    "requestKinds": ["permission", "$rest"],
}


class Recorder:
    """Turns frames into lines of a story: names for ids, `$time` for times, one line for a run of deltas."""

    def __init__(self, work: str) -> None:
        self.names = Names(work=work)
        self.lines: list[dict[str, Any]] = []
        self._work = work
        self._known: dict[str, str] = {}

    def heard(self, client: str, frame: dict[str, Any]) -> None:
        """Add what a client was told, unless stories leave it out."""
        if "method" in frame and not told(frame):
            return
        if frame.get("method") == EVENT and frame["params"]["kind"] == "item.delta":
            self._delta(client, frame["params"])
            return
        self.lines.append({"from": "daemon", "to": client, "frame": self.generalise(frame)})

    def generalise(self, value: Any, key: str = "") -> Any:
        """The frame with everything that differs from run to run replaced by what matches it."""
        if key in VARYING and value is not None:
            return VARYING[key]
        if isinstance(value, dict):
            general = {name: self.generalise(below, name) for name, below in value.items()}
            # The sentence of an error is for people, and may be said better one day.
            return {**general, "message": "$text"} if {"code", "message"} <= value.keys() else general
        if isinstance(value, list):
            return [self.generalise(below) for below in value]
        if not isinstance(value, str):
            return value
        if value in self._known:
            return self._known[value]
        if key in NAMED and value:
            count = sum(1 for name in self._known.values() if name.rstrip("0123456789") == f"${NAMED[key]}") + 1
            name = f"${NAMED[key]}" + ("" if count == 1 else str(count))
            self._known[value] = name
            self.names.values[name] = value
            return name
        if TIME.match(value):
            return "$time"
        text = value.replace(self._work, "${work}")
        return f"${text}" if text.startswith("$") and not text.startswith("${work}") else text

    def name(self, frame: dict[str, Any], path: str, name: str) -> None:
        """Give the value at the dotted `path` of the frame heard last a name, in the story as well."""
        *above, last = path.split(".")
        line = self.lines[-1]["frame"]
        for key in above:
            frame, line = frame[key], line[key]
        self.names.values[name] = frame[last]
        line[last] = name

    def _delta(self, client: str, event: dict[str, Any]) -> None:
        item = self.generalise(event["itemId"], "itemId")
        data = event["data"]
        last = self.lines[-1] if self.lines else {}
        run = last.get("deltas") if last.get("to") == client else None
        if run and run["itemId"] == item and run.get("field") == data["field"]:
            run["text"] += data["text"]
            return
        deltas = {"itemId": item, "field": data["field"], "text": data["text"]}
        if data["offset"]:
            deltas["offset"] = data["offset"]
        self.lines.append({"from": "daemon", "to": client, "deltas": deltas})


def record(outline: Path, folder: Path) -> list[dict[str, Any]]:
    """Play the outline against a daemon below `folder`; the lines of the story."""
    head, *steps = [json.loads(line) for line in outline.read_text(encoding="utf-8").splitlines() if line.strip()]
    work = folder / "work"
    work.mkdir(parents=True)
    story = Story(head["story"], head["about"], (), head.get("config", {}), head.get("files", {}))
    recorder = Recorder(str(work))
    actors: dict[str, Actor] = {}
    with running_daemon(folder, prepare(story, folder, work)) as daemon:
        for step in steps:
            if "await" in step:
                _await(step, actors[step["await"]], recorder)
                if step.get("closed"):
                    actors.pop(step["await"]).peer.close()
                continue
            recorder.lines.append(step)
            client = step["from"]
            if step.get("close"):
                actors.pop(client).peer.close()
                continue
            if client not in actors:
                actors[client] = Actor(daemon.socket_path, "newline")
            actor = actors[client]
            if "raw" in step:
                actor.peer.send_body(recorder.names.fill(step["raw"]).encode())
            else:
                actor.say(recorder.names.fill(step["frame"]))
        for actor in actors.values():
            actor.peer.close()
    return [head, *recorder.lines]


def _await(step: dict[str, Any], actor: Actor, recorder: Recorder) -> None:
    while True:
        try:
            frame = actor.take()
        except EOFError:
            if not step.get("closed"):
                raise
            recorder.lines.append({"from": "daemon", "to": step["await"], "closed": True})
            return
        recorder.heard(step["await"], frame)
        if "answer" in step and "method" not in frame and frame.get("id") == step["answer"]:
            for path, name in step.get("name", {}).items():
                recorder.name(frame, path, name)
            return
        if "event" in step and frame.get("method") == EVENT and frame["params"]["kind"] == step["event"]:
            return


def main(argv: Sequence[str]) -> int:
    """Record argv[0] into argv[1]; exit code 2 on wrong usage."""
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        lines = record(Path(argv[0]), Path(folder))
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n"
    Path(argv[1]).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
