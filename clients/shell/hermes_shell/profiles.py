"""`hermes profiles`: homes beside each other, each with its own daemon."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from hermes_local import locks
from hermes_local.address import Address, check_profile, ensure_home
from hermes_shell.failures import Failed
from hermes_shell.table import print_table

Given = dict[str, Any]


def show_list(given: Given, address: Address) -> int:
    """Every profile, whether its daemon runs, and where it lives."""
    folder = f"{address.root}/profiles"
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if os.path.isdir(folder) else []
    rows = []
    for name in ("", *names):
        there = Address(address.root, name, address.runtime_dir)
        current = "*" if name == address.profile else ""
        running = "running" if locks.is_locked(there.lock_path) else ""
        rows.append((current, name or "default", running, there.home))
    print_table(("", "PROFILE", "DAEMON", "HOME"), rows)
    return 0


def create(given: Given, address: Address) -> int:
    """Make the profile's home."""
    there = _named(given["name"], address)
    if os.path.isdir(there.home):
        raise Failed(f"profile {there.profile!r} exists: {there.home}")
    ensure_home(there)
    print(f"{there.home}\nuse it with `hermes -p {there.profile} …` or HERMES_PROFILE={there.profile}")
    return 0


def remove(given: Given, address: Address) -> int:
    """Remove a profile with its sessions, configuration and keys; its daemon must be stopped."""
    there = _named(given["name"], address)
    if not os.path.isdir(there.home) or os.path.islink(there.home):
        raise Failed(f"no profile {there.profile!r} in {address.root}/profiles")
    if locks.is_locked(there.lock_path) or locks.is_locked(f"{there.home}/daemon.lock"):
        raise Failed(f"its daemon is running: `hermes -p {there.profile} daemon stop` first")
    if not given["yes"]:
        if not sys.stdin.isatty():
            raise Failed(f"this removes {there.home} with all its sessions; say --yes", 2)
        print(f"remove {there.home} with all its sessions? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return 1
    shutil.rmtree(there.home)
    print(f"removed {there.home}")
    return 0


def _named(name: str, address: Address) -> Address:
    if name == "default":
        raise Failed("the default profile is the home itself; it is neither made nor removed", 2)
    check_profile(name)
    return Address(address.root, name, address.runtime_dir)
