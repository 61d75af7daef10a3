"""Who owns a daemon's address: the lock, the listening socket, the state file and the word that it is ready.

Order (protocol section 12): the owner's locks, then the socket, and only then anything that touches the database. A
second daemon leaves before it has touched anything. At the end only our own files are removed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Sequence

from hermes_local import __version__, locks, state_file
from hermes_local.address import Address, AddressError, ensure_home, ensure_private_dir
from hermes_local.codec import encode
from hermes_local.spawn import DaemonUnavailable, check_replaceable, dial

BACKLOG = 128
# Clients look at the lock with a shared try; that must not look like an owner.
LOCK_TRIES = 20
LOCK_PAUSE_S = 0.01


class Owned(Exception):
    """Another daemon owns this address or this home. `socket_path` is where that one listens, when it said so."""

    def __init__(self, message: str, socket_path: str = "") -> None:
        super().__init__(message)
        self.socket_path = socket_path


class CannotListen(Exception):
    """The socket cannot be bound: the path, what stands in the way, what to do."""


class Owner:
    """The one daemon of an address: holds both locks until `release`, or until the process ends in any way.

    One lock stands beside the socket; the other in the home, because a client with another XDG_RUNTIME_DIR sees
    other sockets but would open the same database.
    """

    def __init__(self, address: Address, runtime_lock: locks.Lock, home_lock: locks.Lock) -> None:
        self.address = address
        self._runtime_lock = runtime_lock
        self._home_lock = home_lock
        self._bound: dict[str, tuple[int, int, int]] = {}
        self._holder = {"pid": os.getpid(), "startTime": time.time(), "socket": address.socket_path}
        for lock in (runtime_lock, home_lock):
            lock.write(encode(self._holder) + "\n")

    @classmethod
    def acquire(cls, address: Address) -> Owner:
        """Become the owner. Owned where there is one already; AddressError for a folder that cannot be trusted."""
        ensure_private_dir(address.runtime_dir)
        if address.socket_link:
            ensure_private_dir(os.path.dirname(address.socket_path))
        ensure_home(address)
        runtime_lock = _take(address.lock_path)
        if runtime_lock is None:
            who = state_file.describe(address.state_path, "")
            raise Owned(f"a daemon already runs for this home: {who}", address.socket_path)
        home_lock = _take(_home_lock_path(address))
        if home_lock is None:
            runtime_lock.release()
            other = state_file.read(_home_lock_path(address))
            where = str(other.get("socket", ""))
            raise Owned(
                f"{address.home} is owned by a daemon in another runtime folder (pid {other.get('pid', '?')}, "
                f"socket {where or '?'}); stop it, or use the same XDG_RUNTIME_DIR",
                where,
            )
        return cls(address, runtime_lock, home_lock)

    def bind(self) -> socket.socket:
        """The listening socket, mode 0600, non-blocking. A socket nobody listens on is replaced; CannotListen else."""
        path = self.address.socket_path
        try:
            connection = dial(path)
            check_replaceable(path)
        except DaemonUnavailable as error:
            raise CannotListen(str(error)) from None
        if connection is not None:
            connection.close()
            raise CannotListen(f"{path} is answered by a process that does not hold the lock; stop that process first")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _remove(path)
            mask = os.umask(0o177)  # the socket is never there with a wider mode, not even for a moment
            try:
                listener.bind(path)
            finally:
                os.umask(mask)
            listener.listen(BACKLOG)
            listener.setblocking(False)
            self._remember(path)
            self._link()
        except OSError as error:
            listener.close()
            raise CannotListen(f"cannot listen on {path}: {error.strerror}") from None
        return listener

    def adopt(self, passed: Sequence[socket.socket]) -> None:
        """Serve on the unix socket that was made by whoever started us (systemd). Its file stays when we leave: a
        connection to it starts the next daemon. CannotListen for other sockets, or where clients look elsewhere."""
        hint = "`hermes daemon install --socket-activation` writes a unit that fits"
        if [sock.family for sock in passed] != [socket.AF_UNIX]:
            kinds = ", ".join(sock.family.name for sock in passed)
            raise CannotListen(f"sockets were passed ({kinds}), expected one unix socket: {hint}")
        path = os.fsdecode(passed[0].getsockname())
        if os.path.realpath(path) != os.path.realpath(self.address.socket_path):
            looked = self.address.socket_path
            raise CannotListen(f"the passed socket is {path}, but clients of this home look for {looked}: {hint}")

    def note_leaving(self, *, state: str, restart: bool, until: float | None) -> None:
        """Say in the lock file what the owner of the lock is doing: a daemon that is leaving answers nobody new."""
        self._runtime_lock.write(encode({**self._holder, "state": state, "restart": restart, "until": until}) + "\n")

    def write_state(
        self, *, boot_id: str, build_id: str, endpoints: Sequence[str], protocol_versions: Sequence[str]
    ) -> None:
        """Tell people and scripts who runs here, in the state file beside the socket."""
        state = {
            "pid": os.getpid(),
            "startTime": time.time(),
            "version": __version__,
            "bootId": boot_id,
            "buildId": build_id,
            "home": self.address.home,
            "endpoints": list(endpoints),
            "protocolVersions": list(protocol_versions),
        }
        state_file.write(self.address.state_path, state)
        self._remember(self.address.state_path)

    def withdraw(self) -> None:
        """Remove socket and state file, if they are still ours: from now on clients find nobody. Twice is once.

        A stopping daemon does this before it answers the stop, so that the next client starts a new one.
        """
        for path, identity in self._bound.items():
            if _identity(path) == identity:
                _remove(path)
        self._bound.clear()

    def release(self) -> None:
        """Withdraw and let the next daemon in. Twice is once."""
        self.withdraw()
        self._home_lock.release()
        self._runtime_lock.release()

    def _remember(self, path: str) -> None:
        identity = _identity(path)
        if identity is not None:
            self._bound[path] = identity

    def _link(self) -> None:
        link = self.address.socket_link
        if not link:
            return
        if os.path.islink(link):
            _remove(link)
        os.symlink(self.address.socket_path, link)
        self._remember(link)


class Readiness:
    """The readiness pipe of `--ready-fd`: one JSON line, once. Without a descriptor it says nothing."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def ready(self, address: Address) -> None:
        """A client's connection will be accepted now."""
        self._say({"ready": True, "pid": os.getpid(), "socket": address.socket_path})

    def failed(self, message: str, code: int, socket_path: str = "") -> None:
        """There will be no daemon here: the sentence, the exit code, and where another one listens."""
        said = {"ready": False, "pid": os.getpid(), "code": code, "message": message}
        self._say({**said, "socket": socket_path} if socket_path else said)

    def _say(self, line: dict[str, object]) -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            os.write(fd, (encode(line) + "\n").encode())
        except OSError:
            pass  # whoever started us is gone or gave a wrong number; the daemon serves all the same
        finally:
            with contextlib.suppress(OSError):
                os.close(fd)


def _home_lock_path(address: Address) -> str:
    return f"{address.home}/daemon.lock"


def _take(path: str) -> locks.Lock | None:
    try:
        for _ in range(LOCK_TRIES):
            lock = locks.try_lock(path)
            if lock is not None:
                return lock
            time.sleep(LOCK_PAUSE_S)
    except OSError as error:
        raise AddressError(f"cannot lock {path}: {error.strerror}") from None
    return None


def _identity(path: str) -> tuple[int, int, int] | None:
    # The time of making stands beside the number: file systems give a freed inode number to the next file.
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
