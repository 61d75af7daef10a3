"""A daemon that belongs to one client on standard input and output, and ends with it."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import tempfile
import time

from hermes_local import spawn
from hermes_local.address import Address
from hermes_local.pump import pump

STOP_S = 2.0


def serve_private(address: Address) -> int:
    """Run a daemon for the home of `address` behind a socket nobody else finds, and pump bytes to it.

    0 when the client said `shutdown` before it left, else 1 (the LSP base protocol's rule). The daemon ends with
    this process, however it ends: it watches a pipe. DaemonUnavailable where another daemon owns the home.
    """
    folder = tempfile.mkdtemp(prefix="hermes-")
    private = Address(address.root, address.profile, folder)
    reading, held = os.pipe()
    watched = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, spawn.READY_FD + 1)  # that number is taken in the child
    os.close(reading)
    pid = 0
    try:
        deadline = time.monotonic() + spawn.START_S
        os.makedirs(os.path.dirname(private.log_path), 0o700, exist_ok=True)
        pid, path = spawn.start(private, deadline, "--runtime-dir", folder, "--until-fd", str(watched), keep=(watched,))
        if path != private.socket_path:
            raise spawn.DaemonUnavailable(
                f"{address.home} belongs to a running daemon (socket {path}); leave --private away, "
                "or set HERMES_HOME to another folder",
                spawn.EXIT_TRY_AGAIN,
            )
        connection = spawn.dial(path)
        if connection is None:
            raise spawn.DaemonUnavailable("the private daemon ended at once", spawn.EXIT_UNAVAILABLE)
        with connection:
            said = pump(sys.stdin.fileno(), sys.stdout.fileno(), connection)
        return 0 if said else 1
    finally:
        os.close(watched)
        os.close(held)
        if pid:
            _stop(pid)
        shutil.rmtree(folder, ignore_errors=True)


def _stop(pid: int) -> None:
    """TERM, and KILL for one that has not ended in time."""
    deadline = time.monotonic() + STOP_S
    try:
        os.kill(pid, signal.SIGTERM)
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.02)
    except (ProcessLookupError, ChildProcessError):
        pass  # it has ended by itself
