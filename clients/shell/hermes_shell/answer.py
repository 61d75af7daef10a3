"""One turn's events as output: the answer's text to standard output, everything else to standard error."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STDOUT, STDERR = 1, 2
# Text of a model may hold terminal control sequences; on a terminal they are shown, not obeyed.
VISIBLE = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160)) if code not in (9, 10)}
ARGS_SHOWN = 160


class Answer:
    """Folds the events of one turn. `failed` is the sentence of a turn that did not complete.

    `write(fd, text)` is called with text for descriptor 1 or 2. `tty` says for each whether it is a terminal.
    """

    def __init__(self, write: Callable[[int, str], None], *, tty: tuple[bool, bool] = (False, False)) -> None:
        self._write = write
        self._out_tty, self._err_tty = tty
        self._shown: dict[str, str] = {}  # text on standard output of each open message
        self._names: dict[str, str] = {}  # tools of the open calls
        self._newline = True  # whether standard output stands at the beginning of a line
        self.model = ""
        self.status = ""
        self.failed = ""

    def feed(self, kind: str, data: dict[str, Any], item_id: str | None) -> None:
        """Take one event of this turn; kinds that have nothing to show are passed over."""
        handler = self._HANDLERS.get(kind)
        if handler is not None:
            handler(self, data, item_id or "")

    def resume(self, item: dict[str, Any]) -> None:
        """Show what a snapshot says of an item, as far as it was not shown yet."""
        item_id = str(item.get("itemId", ""))
        if item.get("type") == "agentMessage":
            self._grow(item_id, str(item.get("text", "")))
            if item.get("status") != "inProgress":
                self._finish(item_id, item)

    def say(self, text: str) -> None:
        """One line on standard error."""
        line = text.rstrip("\n").translate(VISIBLE)
        self._write(STDERR, f"\x1b[2m{line}\x1b[0m\n" if self._err_tty else f"{line}\n")

    def _started(self, data: dict[str, Any], item_id: str) -> None:
        item = data.get("item", {})
        if item.get("type") == "agentMessage":
            self._grow(str(item.get("itemId", item_id)), str(item.get("text", "")))
        elif item.get("type") == "toolCall":
            name = str(item.get("name", "?"))
            self._names[str(item.get("itemId", item_id))] = name
            what = str(item.get("title") or item.get("args") or "")
            self.say(f"[{name}] {what[:ARGS_SHOWN]}{'…' if len(what) > ARGS_SHOWN else ''}")

    def _delta(self, data: dict[str, Any], item_id: str) -> None:
        shown = self._shown.get(item_id)
        if shown is None or data.get("field") != "text":
            return
        text, offset = str(data.get("text", "")), int(data.get("offset", len(shown)))
        # A gap is closed by item.completed; an overlap repeats what is on the screen already.
        if offset <= len(shown):
            fresh = text[len(shown) - offset :]
            self._shown[item_id] = shown + fresh
            self._out(fresh)

    def _completed(self, data: dict[str, Any], item_id: str) -> None:
        item = data.get("item", {})
        item_id = str(item.get("itemId", item_id))
        form = item.get("type")
        if form == "agentMessage":
            self._finish(item_id, item)
        elif form == "toolCall":
            self._tool_ended(self._names.pop(item_id, str(item.get("name", "?"))), item)
        elif form == "fileChange":
            counts = f"+{item.get('added', 0)} -{item.get('removed', 0)}"
            self.say(f"[{item.get('kind', 'changed')}] {item.get('path', '')} ({counts})")
        elif form == "notice":
            self._notice(item, item_id)

    def _tool_ended(self, name: str, item: dict[str, Any]) -> None:
        if item.get("error"):
            self.say(f"[{name}] {item['error']}")
        elif item.get("status") not in ("completed", None):
            self.say(f"[{name}] {item['status']}")
        elif item.get("exitCode"):
            self.say(f"[{name}] exit code {item['exitCode']}")

    def _discarded(self, data: dict[str, Any], item_id: str) -> None:
        if self._shown.pop(item_id, ""):
            self._end_line()
            self.say(f"(what was just said is withdrawn: {data.get('reason') or 'the model starts again'})")

    def _notice(self, data: dict[str, Any], _item_id: str) -> None:
        self.say(f"{data.get('level', 'info')}: {data.get('text', '')}")

    def _asked(self, data: dict[str, Any], _item_id: str) -> None:
        call = data.get("toolCall") or {}
        what = (
            f"{call.get('name', '')}: {call.get('title') or call.get('args', '')}" if call else data.get("prompt") or ""
        )
        self.say(f"({data.get('kind', 'question')} asked) {what}"[: ARGS_SHOWN + 40])

    def _resolved(self, data: dict[str, Any], _item_id: str) -> None:
        by = (data.get("by") or {}).get("name", "")
        outcome = str(data.get("outcome", ""))
        line = f"({outcome}{f' by {by}' if by else ''})"
        if outcome == "policy":
            line = "(denied: nobody is here to ask; --yolo or approvals.allow in config.yaml let it run)"
        self.say(line)

    def _retrying(self, data: dict[str, Any], _item_id: str) -> None:
        error = data.get("error") or {}
        self.say(f"trying again in {int(data.get('delayMs', 0)) / 1000:.1f} s: {error.get('message', '')}")

    def _turn_started(self, data: dict[str, Any], _item_id: str) -> None:
        self.model = str(data.get("model") or self.model)

    def _ended(self, data: dict[str, Any], _item_id: str) -> None:
        self._end_line()
        self.status = str(data.get("status", ""))
        error = data.get("error") or {}
        if self.status != "completed":
            reason = error.get("message") or data.get("stop") or ""
            self.failed = f"the turn {WORDS.get(self.status, self.status)}{f': {reason}' if reason else ''}"

    def _grow(self, item_id: str, text: str) -> None:
        """Bring what is shown of a message up to `text`, where that continues it."""
        shown = self._shown.setdefault(item_id, "")
        if text.startswith(shown):
            self._shown[item_id] = text
            self._out(text[len(shown) :])

    def _finish(self, item_id: str, item: dict[str, Any]) -> None:
        """The completed text is final: say what is missing, or all of it where it differs from what was streamed."""
        shown, text = self._shown.pop(item_id, ""), str(item.get("text", ""))
        self.model = str(item.get("model") or self.model)
        if text.startswith(shown):
            self._out(text[len(shown) :])
        else:
            self._end_line()
            self.say("(the answer was rewritten after it was streamed; the final text follows)")
            self._out(text)
        self._end_line()

    def _out(self, text: str) -> None:
        if text:
            self._newline = text.endswith("\n")
            self._write(STDOUT, text.translate(VISIBLE) if self._out_tty else text)

    def _end_line(self) -> None:
        if not self._newline:
            self._out("\n")

    _HANDLERS = {
        "item.started": _started,
        "item.delta": _delta,
        "item.completed": _completed,
        "item.discarded": _discarded,
        "notice": _notice,
        "request.opened": _asked,
        "request.resolved": _resolved,
        "turn.retrying": _retrying,
        "turn.started": _turn_started,
        "turn.ended": _ended,
    }


WORDS = {
    "interrupted": "was interrupted",
    "failed": "failed",
    "refused": "was refused by the model",
    "limit": "stopped at a limit",
    "lost": "was lost when the daemon stopped",
}


def write_all(fd: int, text: str) -> None:
    """Write to a descriptor at once and completely: nothing is left in a buffer that a later crash could lose."""
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(fd, data) :]
