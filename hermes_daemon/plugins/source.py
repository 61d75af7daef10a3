"""A plugin's source as bytes: where it lies, and a digest that tells whether it has changed since it was imported."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator

from hermes_daemon.plugins.discovery import Found
from hermes_daemon.plugins.manifest import FILE


def place(found: Found) -> str:
    """The plugin's folder, or the module's file of one from a package; "" when that cannot be found."""
    if found.folder:
        return os.path.abspath(found.folder)
    try:
        spec = importlib.util.find_spec(found.entry.partition(":")[0])
    except (ImportError, ValueError):
        return ""
    return spec.origin or "" if spec is not None else ""


def digest(path: str) -> str:
    """SHA-256, in hexadecimal, of a file, or of a folder's manifest and its Python files with their names. "" when
    there is nothing to read."""
    seen = False
    total = hashlib.sha256()
    for file in [path] if os.path.isfile(path) else _files(path):
        try:
            with open(file, "rb") as opened:
                content = opened.read()
        except OSError:
            continue
        seen = True
        name = os.path.relpath(file, path) if file != path else ""
        total.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        total.update(content)
    return total.hexdigest() if seen else ""


def _files(folder: str) -> Iterator[str]:
    for here, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith((".", "__pycache__")))
        yield from (os.path.join(here, name) for name in sorted(names) if name.endswith(".py") or name == FILE)
