"""One socket: bytes to messages and back, in the framing that the first byte chose.

Newline JSON, Content-Length headers, HTTP and WebSocket come in on every listener, plain or through TLS; whoever
receives the messages does not see which it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from hermes_daemon.server import http
from hermes_daemon.server.entrance import Entrance
from hermes_daemon.server.outbox import Outbox, Stage
from hermes_daemon.server.peers import hung_up
from hermes_protocol.framing import Broken, Decoder, Frame, Framing, Oversized

if TYPE_CHECKING:
    from hermes_daemon.server.daemon import Daemon
    from hermes_daemon.server.websocket import WebSocket

log = logging.getLogger(__name__)
STUCK_SECONDS: Final = 30.0
EOF_SECONDS: Final = 10.0
GONE_SECONDS: Final = 0.5
WRITE_HIGH: Final = 262_144
HANG_UP_SECONDS: Final = 1.0
STRANGERS_FRAME_BYTES: Final = 65_536
"""The longest message of somebody who has not shown the token yet."""
MOST_UNKNOWN: Final = 128
"""Network connections that have not said anything that lets them in, at most, on all listeners together."""
GOING_AWAY: Final = 1001
POLICY: Final = 1008
CUT_OFF: Final = 1011
"""Codes of WebSocket close frames (RFC 6455 section 7.4.1)."""
KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""After a minute of silence TCP asks, and gives up a minute later."""


class Receiver(Protocol):
    """Who is spoken to over a wire."""

    @property
    def busy(self) -> bool:
        """True while an answer is still to come."""

    def opened(self) -> None:
        """Somebody is there who speaks the protocol."""

    def received(self, frame: bytes | Oversized) -> None:
        """A message came, or one that was too long and was skipped."""

    def broken(self, frame: Broken) -> None:
        """The stream cannot be followed: say so and hang up."""

    def stalled(self, stage: Stage) -> None:
        """The queue reached a stage of back-pressure."""

    def ended(self) -> None:
        """The other side sends no more."""

    def lost(self) -> None:
        """The socket is gone."""


class Wire(asyncio.Protocol):
    """The protocol object of one socket. Messages go out through `outbox`."""

    def __init__(self, receiver: Receiver, daemon: Daemon, entrance: Entrance) -> None:
        settings = daemon.limits
        self.entrance = entrance
        self.admitted = entrance.tokens is None
        self.outbox = Outbox(
            self._send, soft=settings.outbox_soft_bytes, hard=settings.outbox_hard_bytes, relieved=self._relieved,
            stalled=receiver.stalled,
        )  # fmt: skip
        self.given_up = False
        self.closed = False
        self._receiver = receiver
        self._daemon = daemon
        self._full_limit = settings.max_frame_bytes
        self._decoder = Decoder(self._full_limit if self.admitted else min(self._full_limit, STRANGERS_FRAME_BYTES))
        self._websocket: WebSocket | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._opened = False
        self._deaf = False
        self._hung_up = False
        self._closing = False
        self._mute = False
        self._written = self._taken = 0
        self._heard = self._asked = False
        self._silent: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._pinging: asyncio.TimerHandle | None = None

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there. Over the network it is somebody's only when the first message comes."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's does not inherit
        self._transport.set_write_buffer_limits(high=WRITE_HIGH)
        if self.entrance.local:
            self._open()
        else:
            self._daemon.strangers.add(self)
            self._wait_to_be_known()
            _keep_alive(transport.get_extra_info("socket"))
        if self.entrance.patience_s:
            self._silent = asyncio.get_running_loop().call_later(self.entrance.patience_s, self._bored)

    def data_received(self, data: bytes) -> None:
        """Bytes came: hand on every message that is complete now."""
        if self._hung_up:
            return
        self._heard = True
        if self._websocket is not None:
            self._from_websocket(self._websocket.feed(data))
        else:
            self._sniffed(data)
        if self.outbox.full:
            self._stop_reading()

    def eof_received(self) -> bool:
        """The other side will send no more: that is a detach. What it has asked for is still answered, except through
        TLS, where the end of one direction is the end of both."""
        if self._hung_up:
            return False
        self._receiver.ended()
        self.outbox.flush()
        if not self._receiver.busy or self._websocket is not None or not self._can_half_close():
            return False
        gone = self._transport is not None and hung_up(self._transport.get_extra_info("socket"))
        patience = GONE_SECONDS if gone else EOF_SECONDS
        self._leaving = asyncio.get_running_loop().call_later(patience, self.close)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self.closed = True
        self._daemon.strangers.discard(self)
        self._daemon.unknown.pop(self, None)
        for timer in (self._silent, self._stuck, self._leaving, self._pinging):
            if timer is not None:
                timer.cancel()
        if self._opened:
            self._receiver.lost()

    def pause_writing(self) -> None:
        """The socket is full: a client that stays like this is cut off."""
        self.outbox.pause()
        if self._stuck is None:
            self._watch()

    def resume_writing(self) -> None:
        """The socket takes more."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        self.outbox.resume()

    # --- what the receiver asks for ---

    def detail(self, name: str) -> Any:
        """What the transport knows: `socket`, `peername`, `sockname`."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    @property
    def address(self) -> str:
        """The other side's IP address; "" on a unix socket."""
        return _ip(self.detail("peername"))

    def admit(self) -> None:
        """The token was right: long messages are taken from now on."""
        self.admitted = True
        self._decoder.limit = self._full_limit
        if self._websocket is not None:
            self._websocket.limit = self._full_limit

    def close(self, code: int = GOING_AWAY, reason: str = "") -> None:
        """Send what is queued and close; `code` is for a WebSocket."""
        if self._transport is None or self.closed:
            return
        if not self._closing:
            self._closing = True
            self.outbox.flush()
            if self._websocket is not None:
                self._websocket.close(code, reason)
                self._send(self._websocket.replies()[0])
            self._mute = True
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what is queued is lost."""
        if self._transport is not None:
            self._transport.abort()

    def hang_up(self) -> None:
        """Send what is queued and say no more."""
        self._part(b"", HANG_UP_SECONDS)

    def relax(self) -> None:
        """An answer was given: a client that waits only for it may go now."""
        if self._leaving is not None and not self._closing and not self._receiver.busy:
            self.close()

    # --- in ---

    def _sniffed(self, data: bytes) -> None:
        framing = self._decoder.framing
        for frame in self._decoder.feed(data):
            if framing is None and self._decoder.framing is not None:
                self.outbox.framing = framing = self._decoder.framing
            self._hand_on(frame)
        if self._decoder.framing is Framing.HTTP:
            self._browsed()

    def _hand_on(self, frame: Frame) -> None:
        self._open()
        if isinstance(frame, Broken):
            if self._decoder.framing is None:
                self.outbox.framing = Framing.NEWLINE
            self._receiver.broken(frame)
            return
        self._receiver.received(frame)
        if self.admitted:
            self._settled()

    def _open(self) -> None:
        if not self._opened:
            self._opened = True
            self._daemon.strangers.discard(self)
            self._receiver.opened()

    def _browsed(self) -> None:
        """HTTP came: answer it and hang up, or go on as a WebSocket."""
        data = self._decoder.take()
        request = http.parse(data)
        if request is None:
            self._decoder.feed(data)
            return
        answer: http.Answer = request if isinstance(request, http.Response) else self._route(request)
        if isinstance(answer, http.Response):
            with_body = isinstance(request, http.Response) or request.method != "HEAD"
            self._send(answer.encode(with_body=with_body))
            self.hang_up()
            return
        from hermes_daemon.server.websocket import WebSocket

        if answer.admitted:
            self.admit()
        self._websocket = websocket = WebSocket(data, answer.subprotocol, self._decoder.limit)
        self.outbox.framing = Framing.WEBSOCKET
        messages = websocket.open()
        if not websocket.over:
            self._open()
            self._next_ping()
        self._from_websocket(messages)

    def _route(self, request: http.Request) -> http.Answer:
        return http.answer(request, self.entrance, (self.address, _ip(self.detail("sockname"))), self._daemon)

    def _from_websocket(self, messages: list[Frame]) -> None:
        assert self._websocket is not None
        replies, ended = self._websocket.replies()
        if replies and not ended:
            self.outbox.put_framed(replies)
        for message in messages:
            self._hand_on(message)
        if ended:
            self._goodbye(replies)

    def _goodbye(self, last: bytes) -> None:
        """The WebSocket is over: behind `last`, its close frame, nothing more is sent."""
        if self._opened:
            self._receiver.ended()
        self._part(last, HANG_UP_SECONDS)

    def _part(self, last: bytes, patience: float) -> None:
        """Send what is queued, then `last`, and say no more. What still comes in is taken and dropped for `patience`
        seconds, where the transport can end one direction alone: closing on it would take back what was just said."""
        self._hung_up = True
        if self._transport is None or self.closed or self._closing:
            return
        self._closing = True
        self.outbox.flush()
        self._send(last)
        self._mute = True
        if not self._can_half_close():
            self._transport.close()
            return
        self._transport.write_eof()
        if self._deaf:
            self._deaf = False
            cast(asyncio.ReadTransport, self._transport).resume_reading()
        self._leaving = asyncio.get_running_loop().call_later(patience, self._transport.close)

    # --- out ---

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self.closed and not self._mute and data:
            self._written += len(data)
            self._transport.write(data)

    def _can_half_close(self) -> bool:
        return self._transport is not None and self._transport.can_write_eof()

    def _stop_reading(self) -> None:
        """The client asks and does not read its answers: it is heard again when it has."""
        if not self._deaf and self._transport is not None and not self._transport.is_closing():
            self._deaf = True
            cast(asyncio.ReadTransport, self._transport).pause_reading()

    def _relieved(self) -> None:
        if self._deaf and not self.outbox.full and self._transport is not None and not self._transport.is_closing():
            self._deaf = False
            cast(asyncio.ReadTransport, self._transport).resume_reading()
        self.relax()

    # --- clocks ---

    def _settled(self) -> None:
        """Somebody is there who may stay."""
        self._daemon.unknown.pop(self, None)
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None

    def _wait_to_be_known(self) -> None:
        """Be one of those who have not shown that they may stay. They are bounded, the oldest goes first: each costs a
        file descriptor, and those who are known, the database and the tools need some too."""
        unknown = self._daemon.unknown
        unknown[self] = None
        if len(unknown) > MOST_UNKNOWN:
            oldest = next(iter(unknown))
            del unknown[oldest]
            log.info("too many connections that say nothing: one from %s was closed", oldest.address)
            oldest.abort()

    def _bored(self) -> None:
        self._silent = None
        log.info("a connection from %s said nothing for %g s: closed", self.address, self.entrance.patience_s)
        self.close(POLICY, "nothing was said in time")

    def _watch(self) -> None:
        self._taken = self._taken_now()
        self._stuck = asyncio.get_running_loop().call_later(STUCK_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self._taken_now() > self._taken:
            self._watch()  # slow, but it reads: one frame may take longer than that
            return
        self.given_up = True
        log.warning("a connection took nothing for %d s: closed", STUCK_SECONDS)
        if self._websocket is None or self._closing:
            self.abort()
            return
        # Should it wake up, it reads what the socket holds already and then why it was cut off.
        self._websocket.close(CUT_OFF, "nothing was read for too long")
        self._part(self._websocket.replies()[0], STUCK_SECONDS)
        self._stuck = asyncio.get_running_loop().call_later(STUCK_SECONDS, self.abort)

    def _taken_now(self) -> int:
        """Bytes that the socket has taken so far."""
        return self._written - self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _next_ping(self) -> None:
        if self.entrance.ping_s:
            self._pinging = asyncio.get_running_loop().call_later(self.entrance.ping_s, self._ping)

    def _ping(self) -> None:
        """A period is over: let go who said nothing in it although it was asked. While we do not read, or the other
        side does not, silence says nothing."""
        if self.closed or self._closing or self._websocket is None:
            return
        if self._heard or self._deaf or self.outbox.paused:
            self._asked = False
        elif self._asked:
            log.info("a connection from %s does not answer pings: closed", self.address)
            self.abort()
            return
        else:
            self._asked = True
            self._websocket.ping()
            self.outbox.put_framed(self._websocket.replies()[0])
        self._heard = False
        self._next_ping()


def _keep_alive(connected: Any) -> None:
    """Have TCP find out that the other machine is gone."""
    with contextlib.suppress(OSError, AttributeError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _ip(name: Any) -> str:
    """The IP address of a socket's name."""
    return str(name[0]) if isinstance(name, (tuple, list)) and name else ""
