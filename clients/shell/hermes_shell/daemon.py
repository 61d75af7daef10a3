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
    DRAIN_S,
    EXIT_NOT_RUNNING,
    EXIT_REFUSED,
    EXIT_TRY_AGAIN,
    DaemonUnavailable,
    administer,
    connect,
    connect_or_start,
    owner_of,
    wait_until_free,
)
from hermes_shell.failures import Failed
from hermes_shell.table import print_table

Given = dict[str, Any]
NAME = "hermes daemon"
REQUEST_S = 30.0
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
        with administer(address, NAME) as connection:
            params = {"mode": "now" if now else "drain", "reason": "asked by `hermes daemon`", "restart": restart}
            answer = connection.request("hermes/daemon/shutdown", params, REQUEST_S)
        if answer.get("waitingFor"):
            print(f"waiting for {', '.join(map(str, answer['waitingFor']))}", file=sys.stderr)
    except ConnectionLost:
        pass  # it went before it could answer
    except (DaemonUnavailable, RpcError, TimeoutError) as error:
        if not now and _leaving(address):
            print(f"it is leaving already: {owner_of(address)}", file=sys.stderr)
        elif not now:
            raise Failed(f"{error}\n`hermes daemon stop --now` ends it by force", EXIT_TRY_AGAIN) from None
        else:
            return _kill(address, pid)
    if wait_until_free(address, NOW_S if now else DRAIN_S):
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
        if wait_until_free(address, KILL_S):
            print(f"stopped by force (pid {pid})")
            return 0
    if locks.is_locked(address.lock_path):
        who = state_file.describe(address.state_path, address.log_path)
        raise Failed(f"the daemon cannot be ended: {who}", EXIT_TRY_AGAIN)
    print("stopped")
    return 0


def _leaving(address: Address) -> bool:
    return state_file.read(address.lock_path).get("state") in ("draining", "stopping")


def _holder(address: Address) -> int | None:
    pid = state_file.read(address.lock_path).get("pid")
    return pid if isinstance(pid, int) and pid > 1 else None


def _only_here(address: Address, verb: str) -> None:
    if address.daemon_url:
        raise Failed(
            f"`hermes daemon {verb}` is for this user's own daemon, not for {address.daemon_url}", EXIT_REFUSED
        )


def status(given: Given, address: Address) -> int:
    """What the daemon says of itself; exit code 3 when none runs."""
    try:
        with administer(address, NAME) as connection:
            found = connection.request("hermes/daemon/status", {}, REQUEST_S)
            if not connection.welcome:
                found["compatible"] = False
    except DaemonUnavailable as error:
        if _leaving(address) and locks.is_locked(address.lock_path):
            return _status_of_leaving(given, address)
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


def _status_of_leaving(given: Given, address: Address) -> int:
    """A daemon that drains takes no new connection: what it wrote into its lock file."""
    owner = state_file.read(address.lock_path)
    if given["json"]:
        rows = {"running": True, "home": address.home, "pid": owner.get("pid"), "state": owner.get("state")}
        until = owner.get("until")
        left = max(0.0, round(until - time.time(), 1)) if isinstance(until, (int, float)) else None
        handover = {"state": owner.get("state"), "restart": bool(owner.get("restart")), "deadlineS": left}
        print(json.dumps({**rows, "handover": handover}, indent=2))
    else:
        print(f"{'state':12} {owner.get('state')}")
        print(f"{'handover':12} {owner_of(address)}")
    return EXIT_TRY_AGAIN


def _described(found: Given, address: Address) -> list[tuple[str, object]]:
    """Rows for people. A daemon of another version may leave things out that this one tells."""
    idle, counts = found.get("idle", {}), found.get("sessions", {})
    holders = ", ".join(idle.get("holders", ())) or "nothing"
    leaving = idle.get("exitsInS")
    rows: list[tuple[str, object]] = [
        ("state", found.get("state", "ready")),
        ("pid", found.get("pid", "?")),
        ("version", f"{found.get('version', '?')}{_skew(found)}"),
        ("up", state_file.duration(found.get("uptimeS", 0))),
        ("home", found.get("home") or address.home),
        ("endpoints", ", ".join(found.get("endpoints", ()))),
        (
            "sessions",
            f"{counts.get('live', 0)} live, {counts.get('busy', 0)} busy; {found.get('turns', 0)} turns running",
        ),
        ("requests", f"{found.get('openRequests', 0)} open"),
        ("children", found.get("children", 0)),
        ("memory", f"{found.get('rssBytes', 0) / 1_048_576:.1f} MiB"),
        ("storage", found.get("storage", "ok")),
        ("kept by", holders if leaving is None else f"nothing; leaves in {state_file.duration(leaving)}"),
    ]
    if found.get("handover"):
        rows.append(("handover", _handover(found["handover"])))
    rows += [("warning", text) for text in found.get("warnings", ())]
    return rows


def _skew(found: Given) -> str:
    if found.get("compatible") is False:
        return f" (no protocol in common with this client, {__version__}; `hermes daemon restart` replaces it)"
    if found.get("stale"):
        return " (stale: the installed code has changed)"
    other = found.get("version") not in ("", None, __version__)
    return f" (this client is {__version__})" if other else ""


def _handover(told: Given) -> str:
    """How the daemon gives way, in a sentence."""
    if told.get("state") == "stale":
        return "leaves as soon as nothing keeps it; the next client starts the new build"
    left = told.get("deadlineS")
    parts = [str(told.get("state"))]
    parts += [f"for {state_file.duration(left)} more at most"] if left is not None else []
    parts += [f"waiting for {', '.join(told['waitingFor'])}"] if told.get("waitingFor") else []
    parts += ["another daemon is to follow"] if told.get("restart") else []
    return ", ".join(parts)


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
