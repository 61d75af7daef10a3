"""Whether anything of a process group still runs."""

from __future__ import annotations

from pathlib import Path


def living(group: int) -> list[int]:
    """Pids of the group that run; who is dead and waits to be reaped does not."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(pgrp) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found
