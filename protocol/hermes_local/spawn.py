"""Connect to the daemon of an address, or start it: what every client does first (protocol section 12).

The order that keeps two starters from making two daemons: connect; take the start lock; connect again; look at the
owner's lock; start; wait for readiness. The daemon itself takes the owner's lock and replaces a dead socket.
"""

from __future__ import annotations

import os
import sys
import time

from hermes_local import PROTOCOL_VERSIONS, codec, locks, state_file
from hermes_local.address import Address, AddressError, ensure_home, ensure_private_dir
from hermes_local.connection import Connection, ConnectionLost, RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

CONNECT_S = 0.5
INITIALIZE_S = 10.0
START_S = 10.0
# A drain waits for turns; the daemon has its own, shorter deadline for them.
DRAIN_S = 120.0
POLL_S = 0.02
READY_FD = 3

EXIT_NOT_RUNNING = 3
EXIT_VERSION = 4
EXIT_REFUSED = 5
EXIT_UNAVAILABLE = 69
EXIT_TRY_AGAIN = 75


class DaemonUnavailable(Exception):
    """No connection to a daemon; the message says why and what to do, `exit_code` is the command's (section 12)."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Incompatible(DaemonUnavailable):
    """The daemon shares no protocol version with this client; `supported` are its own. `drain` can end it."""

    def __init__(self, message: str, supported: tuple[str, ...]) -> None:
        super().__init__(message, EXIT_VERSION)
        self.supported = supported


class _Gone(DaemonUnavailable):
    """The daemon closed the connection before it said anything: it was just leaving."""


def connect_or_start(address: Address, name: str, patience: float = START_S, **hello: Any) -> Connection:
    """An initialized connection to the daemon of `address`, started if none runs. DaemonUnavailable else.

    `name` and `hello` go to Connection.initialize; `patience` in seconds is for a start, own or another's.
    """
    try:
        return _initialized(address, reach(address, patience), name, hello)
    except _Gone:
        return _initialized(address, reach(address, patience), name, hello)


def reach(address: Address, patience: float = START_S) -> Connection:
    """A bare connection, nothing said on it yet, to the daemon of `address`, started if none runs.

    One that is named by a URL is never started.
    """
    if address.daemon_url:
        from hermes_local import elsewhere

        return elsewhere.dial(address.daemon_url)
    return dial(address.socket_path) or _start(address, patience)


def connect(address: Address, name: str, **hello: Any) -> Connection:
    """An initialized connection to a daemon that already runs; DaemonUnavailable with code 3 where none does."""
    return _initialized(address, _found(address), name, hello)


def _found(address: Address) -> Connection:
    if address.daemon_url:
        return reach(address)
    connection = dial(address.socket_path)
    if connection is not None:
        return connection
    if locks.is_locked(address.lock_path):
        raise DaemonUnavailable(f"the daemon accepts no connection: {owner_of(address)}", EXIT_TRY_AGAIN)
    raise DaemonUnavailable("no daemon is running; start it with `hermes daemon start`", EXIT_NOT_RUNNING)


def owner_of(address: Address) -> str:
    """Who holds the address without listening: a daemon that is leaving says so in its lock file."""
    owner = state_file.read(address.lock_path)
    if owner.get("state") not in ("draining", "stopping"):
        return state_file.describe(address.state_path, address.log_path)
    until = owner.get("until")
    left = state_file.duration(until - time.time()) if isinstance(until, (int, float)) else ""
    after = ", and another one is to follow" if owner.get("restart") else ""
    return f"pid {owner.get('pid', '?')} is {owner['state']}{f', for {left} more at most' if left else ''}{after}"


def administer(address: Address, name: str, **hello: Any) -> Connection:
    """A connection to a daemon of whatever version: good for hermes/daemon/status, ping and shutdown, which are frozen.

    `welcome` is empty where there is no common version. DaemonUnavailable with code 3 where no daemon runs.
    """
    connection = _found(address)
    try:
        return _introduced(address, connection, name, hello)
    except Incompatible:
        return connection
    except BaseException:
        connection.close()
        raise


def replace(address: Address, name: str, reason: str, tell: Callable[[str], None], limit_s: float = DRAIN_S) -> None:
    """Let the running daemon finish its turns and go, so that the next connection starts a new one.

    `tell` gets a sentence for people when something is waited for. DaemonUnavailable with code 75 when it has not
    gone after `limit_s`, with code 3 when none runs.
    """
    try:
        with administer(address, name) as connection:
            params = {"mode": "drain", "reason": reason, "restart": True}
            answer = connection.request("hermes/daemon/shutdown", params, INITIALIZE_S)
        if answer.get("waitingFor"):
            tell(f"waiting for {', '.join(map(str, answer['waitingFor']))}")
    except (ConnectionLost, _Gone):
        pass  # it went before it could answer
    except RpcError as error:
        raise DaemonUnavailable(f"the daemon does not go: {error.message}", EXIT_REFUSED) from None
    except TimeoutError:
        who = state_file.describe(address.state_path, address.log_path)
        raise DaemonUnavailable(f"the daemon does not answer: {who}", EXIT_TRY_AGAIN) from None
    if not wait_until_free(address, limit_s):
        raise DaemonUnavailable(
            f"the daemon still runs after {limit_s:g} s; `hermes daemon stop --now` ends its turns", EXIT_TRY_AGAIN
        )


def wait_until_free(address: Address, seconds: float) -> bool:
    """Whether the daemon has left the address within so many seconds."""
    deadline = time.monotonic() + seconds
    while locks.is_locked(address.lock_path):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def dial(path: str) -> Connection | None:
    """A bare connection to the socket at `path`, None where nobody listens there.

    DaemonUnavailable where something stands at the path that is not a socket (it is left alone), where the daemon
    belongs to another user, or where its queue of connections stays full.
    """
    give_up = time.monotonic() + CONNECT_S
    while True:
        try:
            return Connection.open(path, CONNECT_S)
        except (FileNotFoundError, ConnectionRefusedError):
            check_replaceable(path)
            return None
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise DaemonUnavailable(f"the daemon at {path} accepts no connection", EXIT_TRY_AGAIN) from None
            time.sleep(POLL_S)  # the kernel's accept queue is full and unix sockets do not wait for it
        except OSError as error:
            raise DaemonUnavailable(f"cannot connect to {path}: {error.strerror or error}", EXIT_UNAVAILABLE) from None


def check_replaceable(path: str) -> None:
    """DaemonUnavailable unless `path` is free or a socket: files, folders and links of others are never removed."""
    try:
        mode = os.lstat(path).st_mode & 0o170000
    except FileNotFoundError:
        return
    what = {0o140000: "", 0o100000: "a regular file", 0o040000: "a folder", 0o120000: "a symbolic link"}.get(
        mode, "something else"
    )
    if what:
        raise DaemonUnavailable(
            f"{path} is {what}, expected the daemon's socket; it is left alone: move it away and try again",
            EXIT_UNAVAILABLE,
        )


def _initialized(address: Address, connection: Connection, name: str, hello: Mapping[str, Any]) -> Connection:
    try:
        return _introduced(address, connection, name, hello)
    except BaseException:
        connection.close()
        raise


def _introduced(address: Address, connection: Connection, name: str, hello: Mapping[str, Any]) -> Connection:
    if address.daemon_url:
        from hermes_local import elsewhere

        hello = {"token": elsewhere.token(address), **hello}
    try:
        connection.initialize(name, **{"timeout": INITIALIZE_S, **hello})
    except RpcError as error:
        if error.kind == "version_unsupported":
            raise _incompatible(error) from None
        raise DaemonUnavailable(_refusal(error), _refusal_code(error)) from None
    except (TimeoutError, ConnectionError) as error:
        who = address.daemon_url or state_file.describe(address.state_path, address.log_path)
        if isinstance(error, TimeoutError):
            raise DaemonUnavailable(f"the daemon does not answer: {who}", EXIT_TRY_AGAIN) from None
        raise _Gone(f"the daemon closed the connection: {who}", EXIT_TRY_AGAIN) from None
    return connection


def _refusal(error: RpcError) -> str:
    hint = "; name its file with --token-file or HERMES_DAEMON_TOKEN_FILE" if error.kind == "auth_required" else ""
    return f"the daemon refused the connection: {error.message}{hint}"


def _incompatible(error: RpcError) -> Incompatible:
    told = error.data.get("supported")
    supported = tuple(map(str, told)) if isinstance(told, (list, tuple)) else ()
    return Incompatible(
        f"the daemon speaks {', '.join(supported) or 'another protocol'}, this client {', '.join(PROTOCOL_VERSIONS)}; "
        "`hermes daemon restart` replaces it when its turns have finished",
        supported,
    )


def _refusal_code(error: RpcError) -> int:
    codes = {"draining": EXIT_TRY_AGAIN, "overloaded": EXIT_TRY_AGAIN}
    return codes.get(error.kind, EXIT_REFUSED)


def _start(address: Address, patience: float) -> Connection:
    """Be the one who starts the daemon, or wait for the one who does."""
    if address.profile and not os.path.isdir(address.home):
        name = address.profile  # a slip of the pen must not found a new home
        raise DaemonUnavailable(f"there is no profile {name!r}; `hermes profiles create {name}` makes it", EXIT_REFUSED)
    try:
        ensure_private_dir(address.runtime_dir)
        if address.socket_link:
            ensure_private_dir(os.path.dirname(address.socket_path))
        ensure_home(address)
    except AddressError as error:
        raise DaemonUnavailable(str(error), EXIT_UNAVAILABLE) from None
    deadline = time.monotonic() + patience
    while True:
        lock = locks.try_lock(address.start_lock_path)
        if lock is not None:
            try:
                return _start_locked(address, deadline)
            finally:
                lock.release()
        connection = dial(address.socket_path)
        if connection is not None:
            return connection
        _wait(address, deadline, "another client is starting the daemon and does not finish")


def _start_locked(address: Address, deadline: float) -> Connection:
    while True:
        connection = dial(address.socket_path)
        if connection is not None:
            return connection
        if not locks.is_locked(address.lock_path):
            break
        # Someone owns the address without listening: it is starting, leaving or stopped. It is never replaced.
        _wait(address, deadline, "the daemon holds its lock but does not listen")
    _, path = start(address, deadline)
    while True:
        connection = dial(path)
        if connection is not None:
            return connection
        _wait(address, deadline, "the daemon started but does not listen")


def _wait(address: Address, deadline: float, why: str) -> None:
    if time.monotonic() > deadline:
        raise DaemonUnavailable(f"{why}: {owner_of(address)}", EXIT_TRY_AGAIN)
    time.sleep(POLL_S)


def start(address: Address, deadline: float, *more: str, keep: tuple[int, ...] = ()) -> tuple[int, str]:
    """Start a daemon in a session of its own and wait until it is ready: its pid and the socket to connect to.

    That socket is another one where a daemon under a different runtime folder already owns this home. `more` are
    further arguments of `hermes-daemon serve`, `keep` are descriptors it inherits.
    """
    pid, ready = _spawn(address, more, keep)
    try:
        line = _read_line(ready, deadline)
    finally:
        os.close(ready)
    try:
        said = codec.decode(line) if line else {}
    except ValueError:
        said = {}
    if said.get("ready") or said.get("socket"):
        return pid, str(said.get("socket") or address.socket_path)
    if line is None:
        who = f"pid {pid}{state_file.log_tail(address.log_path)}"
        raise DaemonUnavailable(f"the daemon was started but is not ready: {who}", EXIT_TRY_AGAIN)
    if said.get("code") == EXIT_TRY_AGAIN:
        return pid, address.socket_path  # somebody else was faster; wait for theirs
    reason = said.get("message") or f"it ended with {_ending(pid)}{state_file.log_tail(address.log_path)}"
    raise DaemonUnavailable(f"the daemon could not be started: {reason}", int(said.get("code", EXIT_UNAVAILABLE)))


def _ending(pid: int) -> str:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _spawn(address: Address, more: tuple[str, ...], keep: tuple[int, ...]) -> tuple[int, int]:
    """The daemon's pid and the reading end of its readiness pipe."""
    # -P: a folder named like one of our modules in the client's working directory must not be imported.
    command = [sys.executable, "-P", "-m", "hermes_daemon", "serve", "--ready-fd", str(READY_FD), *more]
    environ = {**os.environ, **address.environ()}
    reading, writing = os.pipe()
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, writing, READY_FD),
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, address.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_DUP2, fd, fd) for fd in keep),
        ]
        try:
            pid = os.posix_spawn(command[0], command, environ, file_actions=actions, setsid=True)
        except NotImplementedError:
            command[command.index(str(READY_FD))] = str(writing)
            pid = _spawn_without_setsid_support(command, environ, address.log_path, (writing, *keep))
        except OSError as error:
            reason = f"{error.filename or command[0]}: {error.strerror}"
            raise DaemonUnavailable(f"the daemon could not be started: {reason}", EXIT_UNAVAILABLE) from None
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return pid, reading


def _spawn_without_setsid_support(command: list[str], env: dict[str, str], log_path: str, keep: tuple[int, ...]) -> int:
    import subprocess  # only where the C library's posix_spawn cannot make a session

    with open(log_path, "ab") as log:
        child = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=keep, start_new_session=True
        )
    child.returncode = 0  # the daemon outlives us on purpose: nobody waits for it
    return child.pid


def _read_line(fd: int, deadline: float) -> bytes | None:
    """What came up to a newline or the end; None when the deadline passed first."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    text = b""
    while not text.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return None
        chunk = os.read(fd, 4096)
        if not chunk:
            break
        text += chunk
    return text
