"""HTTP for guests: ports.Http over httpx, which is imported with the first request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hermes_daemon.core.ports import HttpReply, Rejected, Unavailable

if TYPE_CHECKING:
    import httpx


class Web:
    """ports.Http. Its connections live in one event loop: `home`, or that of the first request. A request that is
    awaited in another loop is made there, so that guests may ask from threads."""

    def __init__(self, home: asyncio.AbstractEventLoop | None = None) -> None:
        self._home = home
        self._clients: dict[tuple[bool, bool], httpx.AsyncClient] = {}

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 30.0,
        connect_timeout_s: float | None = None,
        max_bytes: int = 8_388_608,
    ) -> HttpReply:
        """See ports.Http."""
        here = asyncio.get_running_loop()
        if self._home is None:
            self._home = here
        given = dict(headers or {})
        who = _checked(url, given)
        if self._home.is_closed():
            raise Unavailable(who, "the event loop of these connections is closed")
        work = self._exchange(method, url, given, body, connect_timeout_s, max_bytes, who)
        try:
            async with asyncio.timeout(timeout_s):
                if here is self._home:
                    return await work
                return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._home))
        except TimeoutError:
            raise Unavailable(who, f"no answer within {timeout_s:g} s") from None

    async def close(self) -> None:
        """Give up the connections. Safe to call twice; a later request opens new ones."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def _exchange(self, method: str, url: str, headers: dict[str, str], body: bytes | None,
                        connect_timeout_s: float | None, max_bytes: int, who: str) -> HttpReply:  # fmt: skip
        import httpx

        client = self._client(url)
        # The time for the whole exchange is kept outside; of httpx's own times only that of connecting is of use.
        seconds = httpx.Timeout(None, connect=connect_timeout_s)
        try:
            async with client.stream(method, url, headers=headers, content=body, timeout=seconds) as response:
                content = bytearray()
                cut = False
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > max_bytes:
                        cut = True
                        break
                names = {name.lower(): value for name, value in response.headers.items()}
                return HttpReply(response.status_code, names, bytes(content[:max_bytes]), cut)
        except httpx.ConnectTimeout:
            raise Unavailable(who, f"no connection within {connect_timeout_s or 0:g} s") from None
        except httpx.UnsupportedProtocol:
            raise Rejected(f"expected a URL that begins with http:// or https://, at {who}", "$.url") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise Unavailable(who, f"the exchange failed ({type(error).__name__})") from None

    def _client(self, url: str) -> httpx.AsyncClient:
        """Loading certificates costs more than all the rest, and nothing on this machine is behind a proxy."""
        from hermes_daemon.providers.http_provider import is_loopback

        local, secure = is_loopback(url), url.lower().startswith("https:")
        client = self._clients.get((local, secure))
        if client is None:
            import httpx

            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30)
            client = self._clients[local, secure] = httpx.AsyncClient(
                limits=limits, verify=secure, trust_env=not local, headers={"user-agent": "hermes-daemon"}
            )
        return client


def _checked(url: str, headers: dict[str, str]) -> str:
    """The host and port, for words about failures. Rejected for what cannot be sent."""
    try:
        parts = urlsplit(url)
        who = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    except ValueError:
        raise Rejected("is no URL", "$.url") from None
    if parts.scheme not in ("http", "https") or not who:
        raise Rejected("expected a URL that begins with http:// or https:// and names a host", "$.url")
    for name, value in headers.items():
        if not (name + value).isascii() or not value.isprintable():
            raise Rejected("holds characters that no header can carry", f"$.headers.{name}")
    return who
