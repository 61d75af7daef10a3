"""`hermes doctor`: looks at everything that has to be right, and says what to do where it is not."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

from hermes_local import __version__, locks, state_file
from hermes_local.address import Address, AddressError, ensure_private_dir
from hermes_local.connection import Connection, RpcError
from hermes_local.spawn import EXIT_NOT_RUNNING, DaemonUnavailable, Incompatible, connect
from hermes_shell.table import paint

Given = dict[str, Any]
REQUEST_S = 10.0
LOW_DISK_BYTES = 200 * 1_048_576
BIG_DATABASE_BYTES = 2_000_000_000


class Check:
    """One finding: `level` is ok, warn or fail; `advice` says what to do about the last two."""

    __slots__ = ("advice", "level", "name", "text")

    def __init__(self, name: str, level: str, text: str, advice: str = "") -> None:
        self.name = name
        self.level = level
        self.text = text
        self.advice = advice


def run(given: Given, address: Address) -> int:
    """Print the findings; the exit code is 1 when something fails."""
    checks = examine(address)
    if given["json"]:
        rows = [{"name": c.name, "level": c.level, "text": c.text, "advice": c.advice} for c in checks]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print(f"{paint(f'{check.level:4}', check.level)}  {check.name:{width}}  {check.text}")
            if check.advice:
                print(f"{'':{width + 6}}  -> {check.advice}")
    return 1 if any(check.level == "fail" for check in checks) else 0


def examine(address: Address) -> list[Check]:
    """Every check, in the order in which a failure would explain the next."""
    checks = [_python(), _version(), *_home(address), _runtime(address), _disk(address)]
    checks += _daemon(address)
    checks += [_secrets(address), _terminal_programs()]
    return checks


def _python() -> Check:
    return Check("python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})")


def _version() -> Check:
    return Check("version", "ok", f"hermes {__version__}")


def _home(address: Address) -> list[Check]:
    if not os.path.isdir(address.home):
        return [Check("home", "ok", f"{address.home} (made by the first chat)")]
    checks = []
    mode = os.stat(address.home).st_mode & 0o777
    if not os.access(address.home, os.R_OK | os.W_OK | os.X_OK):
        checks.append(
            Check("home", "fail", f"{address.home} cannot be written", "mend its owner and mode, or set HERMES_HOME")
        )
    elif mode & 0o077:
        text = f"{address.home} can be read by others (mode {mode:04o})"
        checks.append(Check("home", "warn", text, f"chmod 700 {address.home}"))
    else:
        checks.append(Check("home", "ok", address.home))
    checks.append(_database(f"{address.home}/state.db"))
    return checks


def _database(path: str) -> Check:
    if not os.path.exists(path):
        return Check("database", "ok", "none yet (made by the first chat)")
    size = os.path.getsize(path)
    text = f"{path}, {size / 1_048_576:.1f} MiB"
    aside = [name for name in os.listdir(os.path.dirname(path)) if name.startswith("state.db.corrupt")]
    if aside:
        advice = f"a damaged database was set aside: {', '.join(sorted(aside))}; keep it until nothing is missed"
        return Check("database", "warn", text, advice)
    if not os.access(path, os.R_OK | os.W_OK):
        return Check("database", "fail", f"{text}: not writable", f"mend the owner and mode of {path}")
    if size > BIG_DATABASE_BYTES:
        return Check("database", "warn", text, "delete old sessions: `hermes sessions list`, `hermes sessions delete`")
    return Check("database", "ok", text)


def _runtime(address: Address) -> Check:
    try:
        if os.path.lexists(address.runtime_dir):
            ensure_private_dir(address.runtime_dir)
    except AddressError as error:
        return Check("runtime folder", "fail", str(error))
    return Check("runtime folder", "ok", address.runtime_dir)


def _disk(address: Address) -> Check:
    there = address.home
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    text = f"{free / 1_048_576:.0f} MiB free at {there}"
    if free < LOW_DISK_BYTES:
        return Check("disk", "warn", text, "free some space: with a full disk nothing can be submitted")
    return Check("disk", "ok", text)


def _daemon(address: Address) -> list[Check]:
    try:
        with connect(address, "hermes doctor") as connection:
            status = connection.request("hermes/daemon/status", {}, REQUEST_S)
            models = connection.request("hermes/models/list", {}, REQUEST_S)
            guests = _guests(connection)
    except Incompatible as error:
        return [Check("daemon", "warn", str(error), "`hermes daemon restart`, when its turns may be waited for")]
    except DaemonUnavailable as error:
        if error.exit_code == EXIT_NOT_RUNNING and not locks.is_locked(address.lock_path):
            return [Check("daemon", "ok", "not running; it starts by itself"), _offline_config(address)]
        return [Check("daemon", "fail", str(error), f"see {address.log_path}; `hermes daemon stop --now` ends it")]
    checks = [_running(status)]
    storage = status.get("storage", "ok")
    if storage != "ok":
        checks.append(
            Check("storage", "fail", storage, "free space or mend the permissions; the daemon goes on by itself")
        )
    # Of plugins and hooks the checks below tell more.
    warnings = [text for text in status.get("warnings", ()) if not (guests and _of_guests(text))]
    checks += [Check("configuration", "warn", text, "`hermes config validate` shows where") for text in warnings]
    if not warnings:
        checks.append(Check("configuration", "ok", "no warnings"))
    return [*checks, *guests, _model(models), *_local_models(models)]


def _guests(connection: Connection) -> list[Check]:
    """Plugins that failed or have problems, and shell hooks that wait for consent; [] from a daemon without either."""
    checks = []
    try:
        rows = connection.request("hermes/plugin/list", {}, REQUEST_S).get("plugins", ())
        hooks = connection.request("hermes/hook/list", {}, REQUEST_S).get("hooks", ())
    except RpcError as error:
        if error.kind == "method_not_found":
            return []
        raise
    for row in rows:
        advice = f"`hermes plugins show {row['id']}`; `hermes plugins disable {row['id']}` keeps it out"
        if row["state"] == "failed":
            checks.append(Check("plugin", "warn", f"{row['id']}: {row.get('detail', '')}", advice))
        elif row["state"] == "loaded":
            checks += [Check("plugin", "warn", text, advice) for text in row.get("problems", ())]
    loaded = [row["id"] for row in rows if row["state"] == "loaded"]
    if loaded:
        checks.append(Check("plugins", "ok", f"{len(loaded)} loaded: {', '.join(loaded)}"))
    for hook in hooks:
        if not hook.get("allowed"):
            text = f"{hook['command']!r} for {hook['event']} waits for consent and does not run"
            checks.append(Check("hook", "warn", text, "`hermes hooks list`, then `hermes hooks allow`"))
    return checks


def _of_guests(warning: str) -> bool:
    return warning.startswith(("plugin ", "$.plugins.entries.")) or "waits for consent" in warning


def _running(status: Given) -> Check:
    up = state_file.duration(status.get("uptimeS", 0))
    text = f"pid {status.get('pid', '?')}, up {up}, {status.get('rssBytes', 0) / 1_048_576:.0f} MiB"
    stale = ", stale: the installed code has changed" if status.get("stale") else ""
    if stale or status.get("version") not in ("", None, __version__):
        advice = "`hermes daemon restart` loads the new one; it does so by itself when nothing keeps it"
        return Check("daemon", "warn", f"{text}, version {status.get('version')}{stale}", advice)
    return Check("daemon", "ok", text)


def _model(found: Given) -> Check:
    default = found["default"]
    row = next((row for row in found["models"] if row["id"] == default), None)
    if row is None:
        return Check(
            "model",
            "fail",
            f"{default} is not known",
            "`hermes models list`, then `hermes config set model.default ID`",
        )
    if row.get("state", "ready") != "ready":
        advice = "`hermes models pull smollm2`, or configure a provider (docs/howto/models.md)"
        if row["provider"] != "local" and row.get("note"):
            advice = f"{row['note']} (docs/howto/models.md)"
        return Check("model", "warn", f"{default} is {row['state']}", advice)
    return Check("model", "ok", f"{default} {row.get('note', '')}".rstrip())


def _local_models(found: Given) -> list[Check]:
    """The embedded models beside the default: nice to have, so never a warning."""
    rows = [row for row in found["models"] if row["provider"] == "local" and row["id"] != found["default"]]
    return [Check("local model", "ok", f"{row['id']} is {row.get('state', 'ready')}") for row in rows]


def _offline_config(address: Address) -> Check:
    if not os.path.exists(f"{address.home}/config.yaml"):
        return Check("configuration", "ok", "no config.yaml: defaults")
    import subprocess

    command = [sys.executable, "-P", "-m", "hermes_daemon", "config", "validate"]
    environ = {**os.environ, **address.environ()}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        return Check("configuration", "fail", said or f"exit code {done.returncode}", "mend config.yaml as it says")
    return Check("configuration", "ok", said.splitlines()[0] if said else "valid")


def _secrets(address: Address) -> Check:
    path = f"{address.home}/.env"
    if not os.path.exists(path):
        return Check(".env", "ok", "none")
    mode = os.stat(path).st_mode & 0o777
    if mode & 0o077:
        return Check(
            ".env", "fail", f"{path} can be read by others (mode {mode:04o}); it is not used", f"chmod 600 {path}"
        )
    return Check(".env", "ok", path)


def _terminal_programs() -> Check:
    missing = [name for name in ("git", "rg") if shutil.which(name) is None]
    if missing:
        return Check("programs", "ok", f"without {', '.join(missing)} (nice to have)")
    return Check("programs", "ok", "git, rg")
