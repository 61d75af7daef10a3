"""What a manifest asks of the machine and the daemon: a plugin that cannot work is not loaded, and says why."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Callable
from typing import Final

from hermes_daemon.plugins.manifest import Manifest
from hermes_local import __version__

_PLATFORMS: Final = {"linux": "linux", "macos": "darwin", "darwin": "darwin", "windows": "win32", "win32": "win32"}
_BOUND: Final = re.compile(r"^\s*(>=|<=|==|!=|>|<)\s*v?(\d+(?:\.\d+)*)\s*$")
_NAME: Final = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def unmet(
    manifest: Manifest,
    secret: Callable[[str], str | None],
    *,
    version: str = __version__,
    platform: str = sys.platform,
    installed: Callable[[str], bool] | None = None,
) -> list[str]:
    """Every requirement that is not met, a sentence each. Packages are looked for and never installed."""
    reasons = [f"{name} is not set" for name in manifest.requires_env if not secret(name)]
    fault = version_fault(manifest.requires_hermes, version)
    if fault:
        reasons.append(f"requires_hermes: {fault}")
    wanted = [_PLATFORMS.get(name.lower(), name.lower()) for name in manifest.platforms]
    if wanted and platform not in wanted:
        reasons.append(f"is for {', '.join(manifest.platforms)}, and this is {platform}")
    there = installed or _installed
    for each in (*manifest.python_dependencies, *manifest.pip_dependencies):
        found = _NAME.match(each)
        if found is None or not there(found[1]):
            reasons.append(f"needs the Python package {each!r}: pip install {found[1] if found else each}")
    return reasons


def version_fault(wanted: str, version: str) -> str:
    """Why `version` does not fit bounds such as ">=0.1,<2"; "" when it does."""
    for bound in filter(None, (each.strip() for each in wanted.split(","))):
        found = _BOUND.match(bound)
        if found is None:
            return f"expected bounds such as '>=0.1,<2', got {bound!r}"
        have, want = _numbers(version), _numbers(found[2])
        width = max(len(have), len(want))
        have, want = have + (0,) * (width - len(have)), want + (0,) * (width - len(want))
        fits = {
            ">=": have >= want, "<=": have <= want, "==": have == want,
            "!=": have != want, ">": have > want, "<": have < want,
        }[found[1]]  # fmt: skip
        if not fits:
            return f"expected {bound}, and this is {version}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version.partition("+")[0])[:4])


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
