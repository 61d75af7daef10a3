"""Middleware that clients run for a session: registered by a connection, asked by a request that only it may answer.

Its registrations are in the session's own registry, behind the daemon's, and gone with the connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hermes_daemon.core.ports import Rejected
from hermes_daemon.middleware import keywords, request_shape
from hermes_daemon.middleware.payloads import Operation, PointContext, ToolDone
from hermes_daemon.middleware.registry import Handle
from hermes_daemon.middleware.sanitising import blackened
from hermes_protocol.methods import ClientMiddleware

if TYPE_CHECKING:
    from hermes_daemon.engine.session import Session

LONGEST_MS: Final = 600_000
MOST_BYTES: Final = 1_048_576
GRACE_S: Final = 5.0
"""Beyond its own time, for a client that does not even take the request from its socket."""


class ClientFailed(Exception):
    """The client gave no answer that can be used."""


class ClientMiddlewares:
    """What the connections of one session offer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._handles: dict[str, tuple[Handle, ...]] = {}

    def check(self, offers: Sequence[ClientMiddleware]) -> None:
        """Rejected names the offer that does not fit."""
        points = [offer.point for offer in offers]
        for index, offer in enumerate(offers):
            if not 1 <= offer.timeout_ms <= LONGEST_MS:
                path = f"$.middleware[{index}].timeoutMs"
                raise Rejected(f"expected 1 to {LONGEST_MS}, got {offer.timeout_ms}", path)
            if offer.point in points[:index]:
                raise Rejected(f"{offer.point} is offered twice", f"$.middleware[{index}].point")

    def register(self, connection_id: str, client: str, offers: Sequence[ClientMiddleware]) -> tuple[str, ...]:
        """Take this in place of what the connection offered before. Gives the points. Rejected as `check`."""
        self.check(offers)
        self.leave(connection_id)
        if offers:
            self._handles[connection_id] = tuple(self._use(connection_id, client, offer) for offer in offers)
        return tuple(offer.point for offer in offers)

    def leave(self, connection_id: str) -> None:
        """The connection does not follow the session any more."""
        for handle in self._handles.pop(connection_id, ()):
            handle.remove()

    def _use(self, connection_id: str, client: str, offer: ClientMiddleware) -> Handle:
        async def link(value: Any, context: PointContext) -> Any:
            return await self._asked(value, context, connection_id, client, offer)

        closed = offer.fail_closed or offer.point == "pre_tool_call"
        seconds = offer.timeout_ms / 1000 + GRACE_S
        return self._session.middleware.use(
            offer.point, link, owner=f"client {client}", on_error="closed" if closed else "event", timeout_s=seconds
        )

    async def _asked(self, value: Any, context: PointContext, connection_id: str, client: str,
                     offer: ClientMiddleware) -> Any:  # fmt: skip
        whole = _plain(value)
        shown = blackened(whole, self._session.parts.redact)
        size = len(msgspec.json.encode(shown))
        if size > MOST_BYTES:
            raise ClientFailed(f"the payload has {size:,} bytes, and at most {MOST_BYTES:,} are sent to a client")
        resolution = await self._session.questions.ask(
            "clientMiddleware",
            turn_id=context.turn_id or None,
            item_id=None,
            timeout_s=offer.timeout_ms / 1000,
            point=offer.point,
            payload=shown,
            connection_id=connection_id,
        )
        if resolution.outcome == "declined":
            return None
        if resolution.outcome != "answered":
            raise ClientFailed(f"{client} gave no answer: {resolution.outcome}")
        if resolution.error is not None:
            raise ClientFailed(f"{client}: {resolution.error}")
        if resolution.result is None:
            return None
        if offer.point == "pre_tool_call":
            return keywords.directive(resolution.result)
        return _replacement(value, _restored(resolution.result, shown, whole))


def _plain(value: Any) -> dict[str, Any]:
    """The payload as a client sees it."""
    match value:
        case str():
            return {"text": value}
        case Operation():
            return {"tool_name": value.name, "tool_call_id": value.call_id, "args": msgspec.to_builtins(value.args)}
        case ToolDone():
            kept = (name for name in value.__struct_fields__ if name not in value.HIDDEN)
            return {name: msgspec.to_builtins(getattr(value, name)) for name in kept}
    return request_shape.as_dict(value)


def _restored(returned: Any, shown: Any, whole: Any) -> Any:
    """What the client gave, with everything that was blackened for it, and that it left alone, as it really is."""
    if returned == shown:
        return whole
    if isinstance(returned, dict) and isinstance(shown, dict):
        return {
            key: _restored(value, shown[key], whole[key]) if key in shown else value for key, value in returned.items()
        }
    if isinstance(returned, list) and isinstance(shown, list):
        paired = min(len(returned), len(shown))
        head = [_restored(returned[at], shown[at], whole[at]) for at in range(paired)]
        return [*head, *returned[paired:]]
    return returned


def _replacement(value: Any, given: Any) -> Any:
    """The payload that the client's result stands for. ClientFailed for one that is none."""
    match value:
        case str():
            return _text(given if isinstance(given, str) else _field(given, "text"), "text")
        case Operation():
            args = _field(given, "args")
            if not isinstance(args, dict):
                raise ClientFailed(f"result.args: expected an object, got {type(args).__name__}")
            return msgspec.structs.replace(value, args=args)
        case ToolDone():
            text = _text(given if isinstance(given, str) else _field(given, "result"), "result")
            return msgspec.structs.replace(value, result=text)
    if not isinstance(given, dict):
        raise ClientFailed(f"result: expected a request, got {type(given).__name__}")
    return request_shape.from_dict(given, value)


def _field(given: Any, name: str) -> Any:
    if not isinstance(given, dict) or name not in given:
        raise ClientFailed(f"result.{name}: missing; the result has the shape of the payload")
    return given[name]


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ClientFailed(f"result.{name}: expected a string, got {type(value).__name__}")
    return value
