"""What `hermes chat` was asked to do, read once from the command line and handed to either way of chatting.

A plain class and no dataclass: importing `dataclasses` costs a third of the time the one-shot path has.
"""

from __future__ import annotations


class ChatOptions:
    """`query` None = interactive, "-" = standard input. `cwd` None = the folder the command was started in."""

    __slots__ = ("continue_", "cwd", "json", "model", "profile", "query", "session", "timeout", "toolsets", "yolo")

    def __init__(
        self,
        *,
        query: str | None = None,
        json: bool = False,
        session: str | None = None,
        continue_: bool = False,
        cwd: str | None = None,
        model: str | None = None,
        yolo: bool = False,
        toolsets: tuple[str, ...] | None = None,
        profile: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.query = query
        self.json = json
        self.session = session
        self.continue_ = continue_
        self.cwd = cwd
        self.model = model
        self.yolo = yolo
        self.toolsets = toolsets
        self.profile = profile
        self.timeout = timeout
