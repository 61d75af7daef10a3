"""A connection to the daemon that repairs itself: initialized, typed requests, notifications to whoever listens.

When the socket is lost, requests under way fail with Disconnected (or are sent again, where the caller says that is
safe) and the connection dials again until it is closed. Sessions subscribe again by themselves (see `session`).
"""

from __future__ import annotations

import asyncio
import os
import ssl
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from hermes_client.dialling import Target, open_wire
from hermes_client.wire import Disconnected, Wire
from hermes_protocol import PROTOCOL_VERSION
from hermes_protocol.errors import ProtocolError
from hermes_protocol.methods import Auth, Capabilities, Client, DaemonStateParams, Hello, InitializeResult, Welcome
from hermes_protocol.reading import read

T = TypeVar("T")
State: TypeAlias = Literal["ready", "lost", "closed"]
Dial: TypeAlias = Callable[[bool], Awaitable[Target]]
"""Where a daemon answers; the argument says whether to start one when there is none."""
NoteHandler: TypeAlias = Callable[[str, msgspec.Raw], None]
StateHandler: TypeAlias = Callable[[State, str], None]

_decode_state = msgspec.json.Decoder(DaemonStateParams).decode

INITIALIZE_SECONDS = 10.0
DELAYS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts to reconnect; the last one repeats."""
ADMISSION_DELAY = 0.5
"""Seconds to wait after `overloaded` or `draining` when the daemon names none."""


class Connection:
    """Made by `open`. `welcome` is what the daemon said of itself at the last (re)connect."""

    def __init__(
        self, dial: Dial, hello: Hello, *, reconnect: bool = True, context: ssl.SSLContext | None = None
    ) -> None:
        self.hello = hello
        self.welcome: Welcome | None = None
        self.state: State = "lost"
        self.reason = ""
        self._dial = dial
        self._context = context
        self._reconnect = reconnect
        self._wire: Wire | None = None
        self._ready = asyncio.Event()
        self._repair: asyncio.Task[None] | None = None
        self._farewell: DaemonStateParams | None = None
        self._may_start = True
        self._note_handlers: list[NoteHandler] = []
        self._state_handlers: list[StateHandler] = []

    @classmethod
    async def open(
        cls,
        address: str | None = None,
        *,
        client: Client | None = None,
        capabilities: Capabilities | None = None,
        profile: str | None = None,
        reconnect: bool = True,
        token: str = "",
        token_file: str = "",
        context: ssl.SSLContext | None = None,
    ) -> Connection:
        """Connect and initialize.

        `address` is the path of a daemon's socket, or unix:/PATH, tcp://HOST:PORT, tls://HOST:PORT, ws://HOST:PORT or
        wss://HOST:PORT; None finds the daemon of `profile` (or the one HERMES_DAEMON names) and starts it when there
        is none, now and at every reconnect; one that was stopped on purpose is only started again by a request that is
        sent again. Over the network a daemon wants its token: `token`, or the text of `token_file`, read at every
        connect. `context` says whom TLS trusts; None trusts what this system does.

        Raises ConnectionError or OSError when the first attempt fails, hermes_local.spawn.DaemonUnavailable for an
        address of no known form, ProtocolError when the daemon refuses (kind `version_unsupported`: no common protocol
        version; `auth_required`, `auth_failed`: the token).
        """
        who = client or Client()
        # The id must stay the same over reconnects: the daemon recognises its half-open predecessor by it.
        who = msgspec.structs.replace(who, id=who.id or str(uuid.uuid4()), name=who.name or "python")
        hello = Hello((PROTOCOL_VERSION,), who, capabilities or Capabilities(), takeover=True)
        dial = _dialer(address, profile, token, token_file)
        connection = cls(dial, hello, reconnect=reconnect, context=context)
        await connection._attempt()
        return connection

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """The id this client is known by in `by.clientId`."""
        return self.hello.client.id

    # --- requests -----------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Any,
        result_type: type[T],
        *,
        resend: bool = False,
        at_once: Callable[[T], None] | None = None,
    ) -> T:
        """Ask, and wait for the answer, decoded as `result_type`. `params` is a Struct of `methods`, a dict, or None.

        `resend` sends it again after a reconnect, and after `overloaded` or a `draining` that announces a restart: for
        reads, and for mutations that carry a key. `at_once` runs with the result before the next frame is looked at.
        Raises ProtocolError for an error answer, Disconnected when the daemon went away and `resend` is off, or when
        the connection was closed.
        """
        decoder = msgspec.json.Decoder(result_type)

        def decode(raw: msgspec.Raw) -> T:
            return read(raw, decoder)

        early = None if at_once is None else (lambda raw: at_once(decode(raw)))
        while True:
            try:
                if resend:
                    self._may_start = True
                    await self.ready()
                if self._wire is None:
                    raise Disconnected(self.reason or "not connected")
                return decode(await self._wire.call(method, {} if params is None else params, early))
            except Disconnected:
                if not resend or self.state == "closed":
                    raise
            except ProtocolError as refused:
                if refused.kind == "method_not_found" and method.startswith("hermes/"):
                    raise self._older(method) from None
                if not resend or not _passes(refused):
                    raise
                await asyncio.sleep(_delay(refused))

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification; lost when the daemon is away."""
        if self._wire is not None:
            self._wire.notify(method, {} if params is None else params)

    # --- what comes by itself -----------------------------------------------------------------------------------------

    def on_note(self, handler: NoteHandler) -> Callable[[], None]:
        """Have `handler(method, params)` called for every notification, in order. Gives the function that ends it."""
        self._note_handlers.append(handler)
        return lambda: self._note_handlers.remove(handler)

    def on_state(self, handler: StateHandler) -> Callable[[], None]:
        """Have `handler(state, reason)` called when the connection is lost, ready again, or closed."""
        self._state_handlers.append(handler)
        return lambda: self._state_handlers.remove(handler)

    async def ready(self) -> None:
        """Wait until connected and initialized. Raises Disconnected once the connection is closed for good."""
        await self._ready.wait()
        if self.state == "closed":
            raise Disconnected(self.reason or "closed")

    async def close(self) -> None:
        """Detach. Sessions and turns go on in the daemon."""
        repair, self._repair = self._repair, None
        if repair is not None:
            repair.cancel()
            await asyncio.gather(repair, return_exceptions=True)
        self._become("closed", "closed by this client")
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _older(self, method: str) -> ProtocolError:
        build = f" (build {self.welcome.build_id})" if self.welcome else ""
        return ProtocolError(
            "method_not_found",
            f"the daemon{build} is older than this client: it has no {method}.",
            hint="`hermes daemon restart` starts the installed one.",
        )

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _attempt(self) -> None:
        target = await self._dial(self._may_start)
        wire: Wire
        wire = await open_wire(target, lambda: Wire(self._note, lambda why: self._lost(wire, why)), self._context)
        try:
            hello = self.hello
            if target.token:
                hello = msgspec.structs.replace(hello, auth=Auth(target.token))
            params = {"hermes": hello}
            raw = await asyncio.wait_for(wire.call("initialize", params), INITIALIZE_SECONDS)
            result = msgspec.json.decode(raw, type=InitializeResult)
        except TimeoutError:
            wire.close()
            raise Disconnected(f"no answer to initialize within {INITIALIZE_SECONDS:g} s on {target.address}") from None
        except BaseException:
            wire.close()
            raise
        wire.notify("initialized", {})
        if not wire.is_open:
            raise Disconnected("the daemon closed the connection")
        self._farewell, self._may_start = None, True
        self._wire, self.welcome = wire, result.capabilities.experimental.hermes
        self._become("ready", "")

    def _note(self, method: str, params: msgspec.Raw) -> None:
        if method == "hermes/daemon/state":
            self._farewell = _decode_state(params)
        for handler in tuple(self._note_handlers):
            handler(method, params)

    def _lost(self, wire: Wire, reason: str) -> None:
        if wire is not self._wire:
            return
        self._wire = None
        if not self._reconnect:
            self._become("closed", reason)
            return
        told = self._farewell
        # Whoever stopped the daemon for good does not want us to bring it back before somebody needs it.
        self._may_start = told is None or told.state == "ready" or told.restart or told.reason == "idle"
        self._become("lost", reason)
        self._repair = asyncio.get_running_loop().create_task(self._redial())

    async def _redial(self) -> None:
        attempt = 0
        while True:
            try:
                await self._attempt()
                return
            except ProtocolError as refused:
                if refused.kind not in ("draining", "overloaded"):  # over the network one may come while it leaves
                    self._become("closed", refused.message)
                    return
                self._become("lost", refused.message)
            except Exception as failed:
                # Whatever keeps the daemon from coming back (no socket yet, a start that failed, a full disk): say it
                # and go on, until somebody closes.
                self._become("lost", str(failed) or type(failed).__name__)
            await asyncio.sleep(DELAYS[min(attempt, len(DELAYS) - 1)])
            attempt += 1

    def _become(self, state: State, reason: str) -> None:
        if self.state == "closed":
            return
        self.state, self.reason = state, reason
        if state == "lost":
            self._ready.clear()
        else:
            self._ready.set()
        for handler in tuple(self._state_handlers):
            handler(state, reason)


def _dialer(address: str | None, profile: str | None, token: str, token_file: str) -> Dial:
    async def fixed(_: bool) -> Target:
        return Target(os.fspath(address or ""), token or await asyncio.to_thread(_token_in, token_file))

    async def found(start: bool) -> Target:
        from hermes_client.start import find, find_or_start  # only who starts daemons pays for what that imports

        return await (find_or_start(profile) if start else find(profile))

    return found if address is None else fixed


def _token_in(path: str) -> str:
    if not path:
        return ""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()


def _passes(refused: ProtocolError) -> bool:
    """Whether waiting helps: a busy daemon, or one that hands over to its successor."""
    return refused.kind == "overloaded" or (refused.kind == "draining" and bool(refused.data.get("restart")))


def _delay(refused: ProtocolError) -> float:
    after = refused.data.get("retryAfterMs")
    return after / 1000 if isinstance(after, int | float) and after >= 0 else ADMISSION_DELAY
