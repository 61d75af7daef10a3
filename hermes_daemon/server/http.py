"""The few HTTP routes of a listener: /healthz for everybody, / and /metrics with the token, the WebSocket upgrade.

Every answer closes the connection. The routes are decided before the WebSocket library is imported.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from hermes_daemon.engine.identity import new_id
from hermes_daemon.server.entrance import Entrance, bearer
from hermes_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from hermes_daemon.server.daemon import Daemon

log = logging.getLogger(__name__)
MAX_HEAD: Final = 16_384
MAX_HEADERS: Final = 100
SUBPROTOCOL: Final = "hermes"
TOKEN_PREFIX: Final = "token."  # noqa: S105 (the word before a token in Sec-WebSocket-Protocol)
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PHRASES: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_NAME: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")  # RFC 9110 section 5.6.2


class Request(msgspec.Struct, frozen=True):
    """The head of a request. Names of headers are in lower case; `path` is without the query."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        """Every value of that header, in order."""
        return [value for key, value in self.headers if key == name]

    def words(self, name: str) -> list[str]:
        """The comma separated words of that header."""
        return [word for value in self.all(name) for word in map(str.strip, value.split(",")) if word]


class Response(msgspec.Struct, frozen=True):
    """An answer after which the connection is closed."""

    status: int
    body: bytes = b""
    type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()

    def encode(self, *, with_body: bool = True) -> bytes:
        """The answer as it goes on the wire; `with_body` False answers a HEAD."""
        rows = [
            ("Content-Type", self.type),
            ("Content-Length", str(len(self.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
            *self.headers,
        ]
        head = "".join(f"{name}: {value}\r\n" for name, value in rows)
        phrase = PHRASES[self.status]
        return f"HTTP/1.1 {self.status} {phrase}\r\n{head}\r\n".encode() + (self.body if with_body else b"")


class Upgrade(msgspec.Struct, frozen=True):
    """Go on as a WebSocket. `admitted`: the token was shown and is right. `subprotocol` is the one to answer with."""

    admitted: bool
    subprotocol: str | None


Answer: TypeAlias = Response | Upgrade


def say(status: int, text: str, *headers: tuple[str, str]) -> Response:
    """An answer of one line of text."""
    return Response(status, f"{text}\n".encode(), headers=headers)


def parse(data: bytes | bytearray) -> Request | Response | None:
    """The request that `data` begins with, None while its head is not complete, a Response where it is none."""
    end = data.find(b"\r\n\r\n")
    if end > MAX_HEAD or (end < 0 and len(data) > MAX_HEAD):
        return say(431, f"the head of a request may have {MAX_HEAD} bytes")
    if end < 0:
        return None
    first, *lines = bytes(data[:end]).decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/") or not words[1].isprintable():
        return say(400, "this is no HTTP request")
    if words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        return say(505, "HTTP/1.1 is spoken here")
    if len(lines) > MAX_HEADERS:
        return say(431, f"a request may have {MAX_HEADERS} headers")
    headers: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or not set(name.lower()) <= _NAME or "\n" in value or "\r" in value or "\0" in value:
            return say(400, "a header line is malformed")
        headers.append((name.lower(), value.strip(" \t")))
    return Request(words[0], words[1].partition("?")[0], tuple(headers))


def answer(request: Request, entrance: Entrance, addresses: tuple[str, str], daemon: Daemon) -> Answer:
    """What to answer. `addresses` are the client's and the one it dialled."""
    theirs, ours = addresses
    hosts = request.all("host")
    if len(hosts) != 1:
        return say(400, "expected one Host header")
    if not entrance.known_host(hosts[0], ours):
        return say(403, "this Host is not known here; `listen.hosts` names those that are")
    if request.method not in ("GET", "HEAD"):
        return say(405, "GET and HEAD are answered here", ("Allow", "GET, HEAD"))
    upgrades = "websocket" in (word.lower() for word in request.words("upgrade"))
    if request.path == "/healthz" and not upgrades:
        return _health(daemon)
    try:
        if upgrades:
            return _upgrade(request, entrance, theirs)
        if request.path not in ("/", "/metrics"):
            return say(404, "nothing is here")
        entrance.check(_authorization(request), theirs)
    except ProtocolError as error:
        return _refused(error)
    return _metrics(daemon) if request.path == "/metrics" else _index(daemon)


def _upgrade(request: Request, entrance: Entrance, address: str) -> Answer:
    origins = request.all("origin")
    if any(origin not in entrance.origins for origin in origins):
        return say(403, "pages of this Origin may not connect; `listen.origins` names those that may")
    if request.method != "GET":
        return say(405, "a WebSocket begins with GET", ("Allow", "GET"))
    offered = request.words("sec-websocket-protocol")
    token = _authorization(request)
    if not token:
        token = next((word[len(TOKEN_PREFIX) :] for word in offered if word.startswith(TOKEN_PREFIX)), "")
    if token:
        entrance.check(token, address)
    return Upgrade(bool(token), SUBPROTOCOL if SUBPROTOCOL in offered else None)


def _authorization(request: Request) -> str:
    """The token of the Authorization header; "" without one."""
    return next((token for value in request.all("authorization") if (token := bearer(value))), "")


def _refused(error: ProtocolError) -> Response:
    after = error.data.get("retryAfterMs")
    if isinstance(after, int):
        return say(429, error.message, ("Retry-After", str(-(-after // 1000))))
    return say(401, error.message, ("WWW-Authenticate", 'Bearer realm="hermes-daemon"'))


class Health(msgspec.Struct, frozen=True, rename="camel"):
    """The body of /healthz. `status` is ok, starting, storage, draining or stopping; `state` as in hermes/daemon/state.
    `uptime_s` are seconds."""

    status: str
    version: str
    state: str
    uptime_s: float


def _health(daemon: Daemon) -> Response:
    """200 when a turn can be started, else 503: whoever balances load or restarts services reads the status line."""
    status = daemon.state if daemon.state != "ready" else _storage(daemon)
    health = Health(status, daemon.identity.version, daemon.state, daemon.uptime_s)
    body = msgspec.json.encode(health) + b"\n"
    return Response(200 if status == "ok" else 503, body, "application/json")


def _storage(daemon: Daemon) -> str:
    room = daemon.room
    if room is None:
        return "storage" if daemon.closed_to else "starting"
    return "ok" if room.storage == "ok" else "storage"


def _metrics(daemon: Daemon) -> Response:
    from hermes_daemon.server import metrics

    try:
        return Response(200, metrics.render(daemon).encode(), METRICS_TYPE)
    except Exception as error:  # a request handler: its failure is an answer
        incident = new_id("incident")
        log.error("/metrics failed, incident %s", incident, exc_info=error)
        return say(500, f"a bug; incident {incident} is in the log")


def _index(daemon: Daemon) -> Response:
    text = (
        f"hermes-daemon {daemon.identity.version}\n\n"
        "/healthz  is it well?\n"
        "/metrics  figures for Prometheus\n\n"
        "The protocol is spoken on this port too: JSON lines, Content-Length headers or a WebSocket.\n"
    )
    return Response(200, text.encode())
