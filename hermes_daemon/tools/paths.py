"""Which file a tool means, and whether it may touch it.

Paths are compared by components after every link is resolved, so a link that leads out of the tree is outside, and
`ws-secret` is not inside `ws`. This keeps a model in its lane; it is no
sandbox: the terminal can reach more, and asks.
"""

from __future__ import annotations

import difflib
import os
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from hermes_daemon.core.ports import Refused, Rejected, ToolContext

_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store"})
_SECRET_PAIRS = frozenset(
    {(".config", "gh"), (".config", "gcloud"), (".docker", "config.json"), (".cargo", "credentials")}
)
_SECRET_FILES = frozenset(
    {
        ".netrc",
        ".git-credentials",
        ".pgpass",
        ".pypirc",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "credentials.toml",
    }
)
_SYSTEM_SECRETS = frozenset({"/etc/shadow", "/etc/gshadow", "/etc/sudoers"})
_KERNEL = ("/proc", "/sys", "/dev")


class Place(msgspec.Struct, frozen=True):
    """A file or folder: `path` with every link resolved, `shown` as people read it, `note` when the name was mended."""

    path: str
    shown: str
    note: str = ""


def locate(raw: str, ctx: ToolContext, *, home: str = "", write: bool = False) -> Place:
    """The place a path argument means. Relative to the session's folder; `~` is the session's HOME.

    Refused when it lies outside the session's folder (reading: unless tools.allow_outside), holds credentials, or
    belongs to the daemon or the kernel. A name that exists only in the other Unicode normal form is taken, with a note.
    """
    if not raw.strip() or "\0" in raw:
        raise Rejected("expected a path, got " + ("an empty text" if not raw.strip() else "a NUL character"), "$.path")
    if len(raw) > 4096:
        raise Rejected(f"expected a path, got {len(raw)} characters", "$.path")
    root = os.path.realpath(ctx.cwd)
    given = os.path.join(ctx.cwd, _home_expanded(raw, ctx))
    found, note = _other_normal_form(given)
    path = os.path.realpath(found)
    if not inside(path, root):
        if write:
            raise Refused(f"{raw} is outside the session's folder {root}.", "Only files inside it can be changed.")
        if not ctx.settings.tools.allow_outside:
            raise Refused(
                f"{raw} is outside the session's folder {root}.", "The setting tools.allow_outside allows reading."
            )
    if holds_credentials(path, home):
        raise Refused(f"{raw} is kept for credentials or for the daemon itself.", "Ask the user for what is needed.")
    if any(inside(path, kernel) for kernel in _KERNEL):
        raise Refused(f"{raw} belongs to the kernel, not to the project.", "Use the terminal tool.")
    return Place(path, shown(path, root), note)


def inside(path: str, root: str) -> bool:
    """Whether a resolved path is `root` or lies below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def shown(path: str, root: str) -> str:
    """The path relative to the session's folder where it lies inside."""
    return os.path.relpath(path, root) if inside(path, root) else path


def holds_credentials(path: str, home: str = "") -> bool:
    """Whether a resolved path is a credential store, or the daemon's own database, .env or logs."""
    parts = path.split("/")
    if _SECRET_FOLDERS.intersection(parts) or parts[-1] in _SECRET_FILES or path in _SYSTEM_SECRETS:
        return True
    if any(pair in _SECRET_PAIRS for pair in pairwise(parts)):
        return True
    if not home:
        return False
    own = os.path.relpath(path, os.path.realpath(home)).split("/")[0]
    return own == ".env" or own.startswith("state.db") or own in ("logs", "plugin-data", "profiles")


def similar_names(path: str) -> list[str]:
    """Up to five names in the same folder that look like the missing one."""
    folder, name = os.path.split(path)
    try:
        names = sorted(os.listdir(folder))[:2000]
    except OSError:
        return []
    lowered = {entry.lower(): entry for entry in names}
    return [lowered[near] for near in difflib.get_close_matches(name.lower(), lowered, 5, 0.6)]


def _home_expanded(raw: str, ctx: ToolContext) -> str:
    if raw == "~" or raw.startswith("~/"):
        own = ctx.env.get("HOME", "")
        if not own:
            raise Refused(f"{raw} cannot be resolved: the session has no HOME.")
        return own + raw[1:]
    return raw


def _other_normal_form(path: str) -> tuple[str, str]:
    """(the path, a note): a missing component is taken in the other normal form, if exactly one name matches."""
    if path.isascii() or os.path.lexists(path):
        return path, ""
    current, mended = "/", False
    for part in _parts(path):
        here = os.path.join(current, part)
        if part not in (".", "..") and not os.path.lexists(here):
            twins = _twins(current, part)
            if len(twins) == 1:
                here, mended = os.path.join(current, twins[0]), True
        current = here
    if not mended:
        return path, ""
    return current, f"the name on disk is in another Unicode normal form: {os.path.basename(current)!r} was taken"


def _parts(path: str) -> Iterator[str]:
    return (part for part in path.split("/") if part)


def _twins(folder: str, name: str) -> list[str]:
    wanted = unicodedata.normalize("NFC", name)
    try:
        return [entry for entry in os.listdir(folder) if unicodedata.normalize("NFC", entry) == wanted]
    except OSError:
        return []
