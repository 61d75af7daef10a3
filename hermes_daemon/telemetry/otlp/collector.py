"""One POST to an OTLP collector, and what its answer means. Blocking: for the exporter's thread."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

RETRYABLE: Final = frozenset({429, 502, 503, 504})
"""By the OTLP specification; every other status is final."""
MOST_ANSWER_BYTES: Final = 65_536


def fault(endpoint: str) -> str:
    """What is wrong with an endpoint, "" when nothing is."""
    try:
        parts = urlsplit(endpoint)
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    return "" if fine else "expected an address like http://localhost:4318"


class Answer(msgspec.Struct, frozen=True):
    """`status` 0: nobody answered, `reason` says why. `retry_after` in seconds, when the collector named it."""

    status: int
    reason: str = ""
    retry_after: float | None = None
    body: bytes = b""

    @property
    def taken(self) -> bool:
        """True when the collector has what was sent."""
        return 200 <= self.status < 300

    @property
    def retryable(self) -> bool:
        """True when the same may be taken later."""
        return self.status == 0 or self.status in RETRYABLE


class Posting(Protocol):
    """Carries a body to a path below the endpoint."""

    def post(self, path: str, body: bytes) -> Answer: ...

    def abort(self) -> None:
        """Let a `post` that waits on another thread come back soon."""
        ...


class Collector:
    """An endpoint such as http://localhost:4318. `headers` are sent and never shown."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], timeout_s: float) -> None:
        parts = urlsplit(endpoint)
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "localhost", parts.port
        self._base = parts.path.rstrip("/")
        self._headers = {**headers, "Content-Type": "application/x-protobuf"}
        self._timeout_s = timeout_s
        self._connection: HTTPConnection | None = None

    def post(self, path: str, body: bytes) -> Answer:
        """Send, and wait for the answer at most the time-out. Never raises for what a collector or a network does."""
        made = HTTPSConnection if self._secure else HTTPConnection
        connection = made(self._host, self._port, timeout=self._timeout_s)
        self._connection = connection
        try:
            connection.request("POST", self._base + path, body, self._headers)
            response = connection.getresponse()
            wait = retry_after(response.getheader("Retry-After", ""), response.getheader("Date", ""))
            return Answer(response.status, response.reason, wait, response.read(MOST_ANSWER_BYTES))
        except (OSError, HTTPException) as error:
            return Answer(0, str(error) or type(error).__name__)
        except ValueError:
            # Its text would show the header's value.
            return Answer(400, "a header holds a character that HTTP does not allow")
        finally:
            self._connection = None
            connection.close()

    def abort(self) -> None:
        """End the wait of a `post` on another thread."""
        connection = self._connection
        sock = connection.sock if connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def shown(endpoint: str) -> str:
    """The endpoint for people: without user, password and query, which may be keys."""
    parts = urlsplit(endpoint)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path.rstrip('/')}"


def retry_after(text: str, date: str = "", now: float | None = None) -> float | None:
    """Seconds of a Retry-After header, a number or an HTTP date (RFC 9110 10.2.3); None for anything else.

    A date is taken relative to the answer's own `date` where there is one: the two clocks need not agree. `now`
    (seconds since 1970) stands in for a missing one.
    """
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    when = _seconds(text)
    if when is None:
        return None
    since = _seconds(date)
    if since is None:
        import time

        since = time.time() if now is None else now
    return max(0.0, when - since)


def _seconds(date: str) -> float | None:
    if not date:
        return None
    try:
        found = parsedate_to_datetime(date)
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
