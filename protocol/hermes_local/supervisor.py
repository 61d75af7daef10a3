"""What systemd passes to a service and hears from it: listening sockets, and how the service is doing.

The two protocols are those of sd_listen_fds(3) and sd_notify(3), a dozen lines each; launchd's plain start needs none.
"""

from __future__ import annotations

import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

FIRST_FD = 3
MOST_FDS = 16


class BadSocket(Exception):
    """What was passed is not a socket this daemon can serve; the message names the descriptor and what it is."""


def passed_sockets(environ: MutableMapping[str, str]) -> list[socket.socket]:
    """The listening sockets that were passed to this process, made non-blocking and closed in its children.

    The variables are taken out of `environ`, so that no child believes they are for it. With another process's
    LISTEN_PID nothing was passed to us. BadSocket for a number that does not fit or a descriptor that is no listening
    stream socket.
    """
    pid, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count:
        return []
    if not count.isdecimal() or int(count) > MOST_FDS:
        raise BadSocket(f"LISTEN_FDS is {count!r}, expected a number of sockets up to {MOST_FDS}")
    return [_checked(fd) for fd in range(FIRST_FD, FIRST_FD + int(count))]


def _checked(fd: int) -> socket.socket:
    try:
        sock = socket.socket(fileno=fd)
    except OSError as error:
        raise BadSocket(f"descriptor {fd} was passed as a socket: {error.strerror}") from None
    known = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
    if sock.family not in known or sock.type != socket.SOCK_STREAM or not _listens(sock):
        sock.detach()  # it is not ours to close
        raise BadSocket(f"descriptor {fd} was passed as a socket, expected a listening unix or TCP stream socket")
    os.set_inheritable(fd, False)
    sock.setblocking(False)
    return sock


def _listens(sock: socket.socket) -> bool:
    try:
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    except OSError:
        return True  # a system that does not tell: a socket that does not listen fails when it is served


class Supervisor:
    """Whoever started this process and wants to hear of it, at the address in NOTIFY_SOCKET; nobody when "" ."""

    def __init__(self, address: str) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address

    @classmethod
    def found(cls, environ: MutableMapping[str, str]) -> Supervisor:
        """The one named in `environ`, which loses the name: children have nothing to say there."""
        return cls(environ.pop("NOTIFY_SOCKET", ""))

    def tell(self, state: str, **more: object) -> None:
        """`state` is READY, STOPPING or RELOADING; `more` are further assignments such as STATUS. Never fails."""
        if not self._address:
            return
        lines = [f"{state}=1", *(f"{name}={value}" for name, value in more.items())]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0)) as sock:
                sock.connect(self._address)
                sock.sendall("\n".join(lines).encode())
        except OSError:
            pass  # a supervisor that does not listen any more changes nothing for our clients
