"""`hermes daemon`: start, stop, restart, status, logs, reload."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from hermes_local import __version__, locks, state_file
from hermes_local.address import Address
from hermes_local.connection import ConnectionLost, RpcError
from hermes_local.spawn import (
    EXIT_NOT_RUNNING,
    EXIT_REFUSED,
    EXIT_TRY_AGAIN,
    DaemonUnavailable,
    connect,
    connect_or_start,
)
from hermes_shell.failures import Failed
from hermes_shell.table import print_table

Given = dict[str, Any]
NAME = "hermes daemon"
REQUEST_S = 30.0
POLL_S = 0.05
# A drain waits for turns; the daemon has its own, shorter deadline for them.
DRAIN_S = 120.0
NOW_S = 10.0
KILL_S = 5.0
FOLLOW_S = 0.2


def start(given: Given, address: Address) -> int:
    """Start the daemon, or say that it runs."""
    _only_here(address, "start")
    running = locks.is_locked(address.lock_path)
    with connect_or_start(address, NAME) as connection:
        status = connection.request("hermes/daemon/status", {}, REQUEST_S)
    print(f"{'already running' if running else 'started'}: pid {status['pid']}, {address.socket_path}")
    return 0


def stop(given: Given, address: Address) -> int:
    """Stop the daemon and wait until it is gone."""
    return _stop(address, now=bool(given["now"]), restart=False)


def restart(given: Given, address: Address) -> int:
    """Stop, wait, start."""
    code = _stop(address, now=bool(given["now"]), restart=True)
    return code if code not in (0, EXIT_NOT_RUNNING) else start(given, address)


def _stop(address: Address, *, now: bool, restart: bool) -> int:
    _only_here(address, "restart" if restart else "stop")
    if not locks.is_locked(address.lock_path):
        print("not running", file=sys.stderr)
        return EXIT_NOT_RUNNING
    pid = _holder(address)
    try:
        with connect(address, NAME) as connection:
            params = {"mode": "now" if now else "drain", "reason": "asked by `hermes daemon`", "restart": restart}
            answer = connection.request("hermes/daemon/shutdown", params, REQUEST_S)
        if answer.get("waitingFor"):
            print(f"waiting for {', '.join(map(str, answer['waitingFor']))}", file=sys.stderr)
    except ConnectionLost:
        pass  # it went before it could answer
    except (DaemonUnavailable, RpcError, TimeoutError) as error:
        if not now:
            raise Failed(f"{error}\n`hermes daemon stop --now` ends it by force", EXIT_TRY_AGAIN) from None
        return _kill(address, pid)
    if _free(address, NOW_S if now else DRAIN_S):
        print("stopped")
        return 0
    if now:
        return _kill(address, pid)
    raise Failed(f"still running after {DRAIN_S:g} s; `hermes daemon stop --now` ends its turns", EXIT_TRY_AGAIN)


def _kill(address: Address, pid: int | None) -> int:
    """End a daemon that does not answer. The kernel's lock says that it lives, the lock file who it is."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if pid is None or not locks.is_locked(address.lock_path):
            break
        os.kill(pid, number)
        if _free(address, KILL_S):
            print(f"stopped by force (pid {pid})")
            return 0
    if locks.is_locked(address.lock_path):
        who = state_file.describe(address.state_path, address.log_path)
        raise Failed(f"the daemon cannot be ended: {who}", EXIT_TRY_AGAIN)
    print("stopped")
    return 0


def _holder(address: Address) -> int | None:
    pid = state_file.read(address.lock_path).get("pid")
    return pid if isinstance(pid, int) and pid > 1 else None


def _free(address: Address, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while locks.is_locked(address.lock_path):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _only_here(address: Address, verb: str) -> None:
    if address.daemon_url:
        raise Failed(
            f"`hermes daemon {verb}` is for this user's own daemon, not for {address.daemon_url}", EXIT_REFUSED
        )


def status(given: Given, address: Address) -> int:
    """What the daemon says of itself; exit code 3 when none runs."""
    try:
        with connect(address, NAME) as connection:
            found = connection.request("hermes/daemon/status", {}, REQUEST_S)
    except DaemonUnavailable as error:
        if error.exit_code != EXIT_NOT_RUNNING:
            raise
        if given["json"]:
            print(
                json.dumps(
                    {"running": False, "home": address.home, "socket": address.daemon_url or address.socket_path}
                )
            )
        else:
            print("not running")
        return EXIT_NOT_RUNNING
    if given["json"]:
        print(json.dumps({"running": True, **found}, indent=2, ensure_ascii=False))
        return 0
    for label, value in _described(found, address):
        print(f"{label:12} {value}")
    rows = [
        (
            row.get("name") or row["client"],
            row["role"],
            row.get("dialect", "native"),
            row.get("transport", "unix"),
            row.get("queueBytes", 0),
        )
        for row in found.get("connections", ())
    ]
    if rows:
        print()
        print_table(("CLIENT", "ROLE", "DIALECT", "OVER", "QUEUED BYTES"), rows)
    return 0


def _described(found: Given, address: Address) -> list[tuple[str, object]]:
    idle, counts = found["idle"], found["sessions"]
    holders = ", ".join(idle.get("holders", ())) or "nothing"
    leaving = idle.get("exitsInS")
    rows: list[tuple[str, object]] = [
        ("state", found.get("state", "ready")),
        ("pid", found["pid"]),
        ("version", f"{found.get('version', '?')}{_skew(found)}"),
        ("up", state_file.duration(found["uptimeS"])),
        ("home", found.get("home") or address.home),
        ("endpoints", ", ".join(found.get("endpoints", ()))),
        ("sessions", f"{counts['live']} live, {counts['busy']} busy; {found['turns']} turns running"),
        ("requests", f"{found['openRequests']} open"),
        ("children", found["children"]),
        ("memory", f"{found['rssBytes'] / 1_048_576:.1f} MiB"),
        ("storage", found.get("storage", "ok")),
        ("kept by", holders if leaving is None else f"nothing; leaves in {state_file.duration(leaving)}"),
    ]
    rows += [("warning", text) for text in found.get("warnings", ())]
    return rows


def _skew(found: Given) -> str:
    if found.get("stale"):
        return " (stale: the installed code has changed; it restarts when idle)"
    other = found.get("version") not in ("", None, __version__)
    return f" (this client is {__version__})" if other else ""


def logs(given: Given, address: Address) -> int:
    """The end of the log file, and with --follow what comes; works without a daemon."""
    _only_here(address, "logs")
    path, wanted = address.log_path, int(given["lines"] or 50)
    try:
        file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 (replaced when the log rotates)
    except OSError as error:
        raise Failed(f"no log at {path}: {error.strerror}", EXIT_NOT_RUNNING) from None
    try:
        sys.stdout.writelines(file.readlines()[-wanted:] if wanted else ())
        if not given["follow"]:
            return 0
        while True:
            line = file.readline()
            if line:
                sys.stdout.write(line)
                continue
            sys.stdout.flush()
            time.sleep(FOLLOW_S)
            if os.path.exists(path) and os.stat(path).st_ino != os.fstat(file.fileno()).st_ino:
                file.close()
                file = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115
    finally:
        file.close()


def reload(given: Given, address: Address) -> int:
    """Let the daemon read config.yaml again."""
    with connect(address, NAME) as connection:
        found = connection.request("hermes/daemon/reload", {"what": ["config"]}, REQUEST_S)
    for text in found.get("warnings", ()):
        print(f"warning: {text}", file=sys.stderr)
    for text in found.get("errors", ()):
        print(f"error: {text}", file=sys.stderr)
    print("changed: " + (", ".join(found.get("changed", ())) or "nothing"))
    return 1 if found.get("errors") else 0
