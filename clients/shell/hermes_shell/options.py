"""What `hermes chat` was asked to do, read once from the command line and handed to either way of chatting.

A plain class and no dataclass: importing `dataclasses` costs a third of the time the one-shot path has.
"""

from __future__ import annotations

import os


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

    def folder(self) -> str:
        """The folder to work in, absolute; Failed with what to do where there is none or no client could name it."""
        try:
            path = os.path.realpath(self.cwd or ".")
        except FileNotFoundError:
            raise _no_folder("the current folder does not exist any more: change to another, or give --cwd") from None
        if not os.path.isdir(path):
            raise _no_folder(f"--cwd {self.cwd}: not a folder")
        if not path.isascii():
            try:
                path.encode()
            except UnicodeEncodeError:
                path = os.fsencode(path).decode("utf-8", "replace")
                raise _no_folder(f"the name of the folder {path} is not UTF-8: rename it, or give --cwd") from None
        return path


def _no_folder(reason: str) -> Exception:
    from hermes_shell.failures import Failed

    return Failed(reason, 2)
