"""Rules proposed for papercuts that keep coming: files that are switched off, for a person to take up or delete."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from typing import Any

from .cut import Papercut, by_impact


def folder_for(setting: str, home: str) -> str:
    """The folder a setting means. ValueError for home/rules itself: files there would be taken for rules."""
    if setting.startswith("~/.hermes/"):
        setting = setting.removeprefix("~/.hermes/")
    folder = os.path.normpath(os.path.join(home, os.path.expanduser(setting)))
    if os.path.realpath(folder) == os.path.realpath(os.path.join(home, "rules")):
        raise ValueError(f"draft_rule_dir: {folder} holds rules that are read; expected a folder that does not")
    return folder


def due(cuts: Iterable[Papercut], after: int) -> list[Papercut]:
    """The papercuts a rule is to be proposed for: not resolved, and come at least `after` times."""
    return by_impact(cut for cut in cuts if cut.status != "resolved" and cut.recurrence >= after)


def write(folder: str, cuts: Iterable[Papercut], after: int) -> dict[str, Any]:
    """Propose a rule for each that is due; what is there already stays as it is, for somebody may have edited it."""
    written: list[str] = []
    kept: list[str] = []
    for cut in due(cuts, after):
        path = os.path.join(folder, f"papercut-{cut.id.removeprefix('pc-')}.md")
        (written if _create(path, text_of(cut)) else kept).append(path)
    return {"folder": folder, "written": written, "kept": kept}


def text_of(cut: Papercut) -> str:
    """A rule in the shape rules have, with `enabled: false`. Strings of JSON are strings of YAML."""
    head = {
        "id": f"papercut-{cut.id.removeprefix('pc-')}",
        "description": _line(cut.observed),
        "enabled": False,
        "agents": [],
        "tools": [],
        "globs": [],
        "check_refs": [],
    }
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    body = [
        f"Seen {cut.recurrence} times ({cut.category}, {cut.severity}; papercut {cut.id}).",
        f"**Expected:** {cut.expected}",
        f"**Observed:** {cut.observed}",
    ]
    if cut.invocation:
        body.append(f"**Called as:** {cut.invocation}")
    if cut.reproduction:
        body.append(f"**To see it again:** {cut.reproduction}")
    body.append(
        "This is a proposal and does nothing. To take it up: write what is to be done instead, set `enabled: true`, "
        "add the `globs` or `tools` it is for, and move the file into a folder of rules."
    )
    return "---\n" + "\n".join(lines) + "\n---\n\n" + "\n\n".join(body) + "\n"


def _create(path: str, text: str) -> bool:
    """Make the file, whole or not at all; False when it is there."""
    if os.path.lexists(path):
        return False
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=folder, prefix=".draft")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.link(made, path)  # fails where another process was first
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(made)
    return True


def _line(text: str) -> str:
    return " ".join(text.split())[:160]
