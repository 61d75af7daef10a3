"""The status line: session, model, how full the context is, what the daemon does, who else is here."""

from __future__ import annotations

import msgspec

from hermes_client import View
from hermes_shell.interactive.printable import one_line


class Situation(msgspec.Struct, frozen=True):
    """What the line tells beside the View: `others` counts other clients of the session, `hint` is for the next key."""

    connection: str = "ready"
    reason: str = ""
    sending: int = 0
    hint: str = ""
    others: int = 0


def status_line(view: View, situation: Situation, width: int, separator: str = " · ") -> str:
    """At most `width` characters; what matters least goes first when it is tight."""
    parts = [(rank, text) for rank, text in _parts(view, situation) if text]
    while parts:
        line = separator.join(text for _, text in parts)
        if len(line) <= width or len(parts) == 1:
            return line[: max(0, width)]
        parts.remove(max(parts, key=lambda part: part[0]))
    return ""


def _parts(view: View, situation: Situation) -> list[tuple[int, str]]:
    """(rank, text) in the order shown; the highest rank is dropped first."""
    session = view.session
    waiting = len(view.queue) + situation.sending
    others = situation.others
    return [
        (0, one_line(situation.hint, 60)),
        (1, _activity(view, situation)),
        (2, f"{waiting} queued{' (paused)' if view.paused else ''}" if waiting else ""),
        (3, shortened(one_line(session.model), 32)),
        (4, f"context {session.occupancy_pct:.0f} %" if session.occupancy_pct is not None else ""),
        (5, f"{others} other client{'s' * (others > 1)}" if others else ""),
        (6, one_line(session.title, 30)),
        (7, session.session_id),
    ]


def shortened(text: str, width: int) -> str:
    """`text` in `width` characters, its middle left out: both ends of a path or a model's name tell something."""
    if len(text) <= width:
        return text
    tail = width // 2
    return f"{text[: width - tail - 1]}…{text[-tail:]}"


def _activity(view: View, situation: Situation) -> str:
    if situation.connection == "lost":
        return f"reconnecting ({one_line(situation.reason, 60)})" if situation.reason else "reconnecting"
    if situation.connection in ("draining", "stopping"):
        return f"daemon {situation.connection}"
    return {"waiting": "waiting for your answer"}.get(view.state, view.state)
