"""Names of database files as SQLite's URI filenames (https://sqlite.org/uri.html)."""

from __future__ import annotations

from typing import Literal


def address(path: str, mode: Literal["ro", "rw"]) -> str:
    """The URI that opens the existing file at `path`; neither mode makes one."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?mode={mode}"
