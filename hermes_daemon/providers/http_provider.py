"""A model endpoint over HTTP, streamed, in any of the wire formats.

One object serves one endpoint and all sessions, over one client with kept connections. It never tries again by itself
(core.retry decides), with three exceptions in which nothing was answered yet: a parameter that a server refuses by
name is said in another way, a key that is refused or limited is followed by the next one, a kept connection that was
gone is replaced.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from hermes_daemon.core.ports import Chunk, ProviderFailure, Reply, Request
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.credentials import LIMITED_S, REFUSED_S, CredentialError, Key, Keys
from hermes_daemon.providers.failures import Endpoint, missing_key, status_failure, transport_failure
from hermes_daemon.providers.formats import FORMATS
from hermes_daemon.providers.http_answer import bounded_body, finished_reply, read_answer
from hermes_daemon.providers.prices import with_cost
from hermes_daemon.providers.wire import Quirks, StreamReader, Terms, Traits, Unsendable

if TYPE_CHECKING:
    import httpx

ERROR_BODY_BYTES = 65_536
MOST_PAUSES = 8  # how often one answer of the provider's own tools may ask to go on


class _Paused(NamedTuple):
    """In place of a Reply: the answer so far, which the provider wants back to go on."""

    reply: Reply


class HttpProvider:
    """A Provider for one endpoint. `secret` looks up variables at every call.

    `quirks` are those of the server's family, `traits` gives what is known of a model, `extra` goes into every body
    below what the request says. `on_limit` is told when a refusal names a model's real window: (model, tokens);
    `on_key` after a key was read from a key store or a file: it must be taken out of what is shown from now on.
    """

    def __init__(
        self,
        name: str,
        settings: ProviderSettings,
        secret: Callable[[str], str | None],
        *,
        quirks: Quirks | None = None,
        traits: Callable[[str], Traits] = lambda model: Traits(),
        extra: Mapping[str, Any] | None = None,
        on_limit: Callable[[str, int], None] = lambda model, tokens: None,
        on_key: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._settings = settings
        self._format = FORMATS[settings.format]
        self._quirks = quirks or Quirks()
        self._traits = traits
        self._extra = {**(extra or {}), **settings.body}
        self._on_limit = on_limit
        self._now = now
        self._keys = Keys(settings.key_sources, secret, now, on_key)
        self._learned: dict[str, Quirks] = {}
        self._client: httpx.AsyncClient | None = None
        self._kept = False  # some connection may be waiting to be used again

    @property
    def name(self) -> str:
        return self._name

    @property
    def keys(self) -> Keys:
        return self._keys

    def url(self, path: str) -> str:
        """The address of `path` below base_url, with the query that base_url carries and the settings' `query`."""
        base, _, query = self._settings.base_url.partition("?")
        base = base.rstrip("/")
        for tail in self._format.tails:
            base = base.removesuffix(tail)
        query = "&".join(part for part in (query, urlencode(self._settings.query)) if part)
        return f"{base}/{path}{'?' if query else ''}{query}"

    @property
    def models_url(self) -> str:
        """Where the endpoint lists its models."""
        return self.url(self._format.models_path)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """See ports.Provider."""
        before: Reply | None = None
        asked = request
        for pauses in range(MOST_PAUSES + 1):
            paused = None
            async with aclosing(self._answer(asked)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, _Paused) and pauses < MOST_PAUSES:
                        paused = _joined(before, chunk.reply)
                    elif isinstance(chunk, _Paused | Reply):
                        whole = _joined(before, chunk.reply if isinstance(chunk, _Paused) else chunk)
                        yield self._priced(whole, request.model)
                    else:
                        yield chunk
            if paused is None:
                return
            before = paused
            asked = msgspec.structs.replace(request, messages=(*request.messages, paused.message))

    async def models(self, key: Key | None = None) -> list[dict[str, Any]]:
        """What the endpoint lists: objects with an `id` and whatever else the server tells. Raises ProviderFailure.

        `key` None: the first that is usable.
        """
        import httpx

        key = key or (await self._usable())[0]
        at = self._endpoint(self.models_url, key)
        client = self._open()
        try:
            response = await client.get(at.url, headers=self._headers(at))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise transport_failure(at, error, streaming=False, stall_s=self._settings.stall_timeout) from error
        if response.status_code != 200:
            raise status_failure(at, response.status_code, response.headers, response.content, self._now())
        try:
            raw = msgspec.json.decode(response.content)
        except msgspec.DecodeError:
            raise at.fail("malformed", f"{at.url} answered something that is not JSON. Check base_url.") from None
        rows = raw.get("data", raw.get("models")) if isinstance(raw, dict) else raw
        listed = [{**row, "id": row.get("id") or row.get("name")} for row in rows or () if isinstance(row, dict)]
        return [row for row in listed if isinstance(row["id"], str)]

    async def close(self) -> None:
        """Give up the connections. Safe to call twice; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # --- one answer ---

    async def _answer(self, request: Request) -> AsyncGenerator[Chunk | _Paused, None]:
        """The chunks of one answer, whichever key and way of speaking it takes."""
        keys = await self._usable()
        while True:
            quirks = self._learned.get(request.model, self._quirks)
            at = self._endpoint(self._url(request.model, quirks), keys[0], request.model)
            headers = self._headers(at)
            body = self._body(at, request, quirks)
            refused = None
            async with aclosing(self._attempt(at, headers, body, self._format.reader(request))) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, ProviderFailure):
                        refused = chunk
                    else:
                        yield chunk
            if refused is None:
                return
            other = self._format.otherwise(quirks, refused) if refused.status in (400, 422) else None
            if other is not None:
                self._learned[request.model] = other
                continue
            self._learn(request.model, refused)
            self._rest(keys.pop(0), refused)
            if not keys or refused.kind not in ("auth", "quota", "rate"):
                raise refused

    async def _attempt(
        self, at: Endpoint, headers: dict[str, str], body: bytes, reader: StreamReader
    ) -> AsyncGenerator[Chunk | _Paused | ProviderFailure, None]:
        """One HTTP exchange. A refusal comes as the last value instead of being raised: it may be asked otherwise."""
        import httpx

        streaming = False
        try:
            async with self._exchange(at, headers, body) as response:
                if response.status_code != 200:
                    content = await bounded_body(response, ERROR_BODY_BYTES)
                    yield status_failure(at, response.status_code, response.headers, content, self._now())
                    return
                streaming = True
                async with aclosing(read_answer(at, response, self._format, reader)) as chunks:
                    async for chunk in chunks:
                        yield _Paused(chunk) if isinstance(chunk, Reply) and reader.paused else chunk
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            reply = finished_reply(reader)  # the finish reason came: what broke was only the farewell
            if reply is None:
                raise transport_failure(at, error, streaming=streaming, stall_s=self._settings.stall_timeout) from error
            yield _Paused(reply) if reader.paused else reply

    @asynccontextmanager
    async def _exchange(self, at: Endpoint, headers: dict[str, str], body: bytes) -> AsyncIterator[httpx.Response]:
        """Send, and wait for the head of the answer.

        A kept connection that the server closed in the same moment breaks before any answer. That says nothing about
        the server, so it is asked once more, over a new one.
        """
        import httpx

        client = self._open()
        again = self._kept
        while True:
            request = client.build_request("POST", at.url, headers=headers, content=body)
            try:
                response = await client.send(request, stream=True)
                break
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if not again:
                    raise
                again = False
        self._kept = True
        try:
            yield response
        finally:
            await response.aclose()

    # --- what is sent ---

    async def _usable(self) -> list[Key]:
        """The keys to try, in order; one without a value where the endpoint needs none."""
        sources = self._settings.key_sources
        if not sources:
            return [Key("", "")]
        try:
            keys = await self._keys.usable()
        except CredentialError as error:
            raise ProviderFailure("auth", f"{self._name}: {error}", provider=self._name) from None
        if not keys:
            raise missing_key(self._endpoint(self.url(self._format.path), Key(" or ".join(sources), "")))
        return keys

    def _rest(self, key: Key, refused: ProviderFailure) -> None:
        if refused.kind in ("auth", "quota"):
            self._keys.rest(key, REFUSED_S)
        elif refused.kind == "rate":
            self._keys.rest(key, LIMITED_S if refused.retry_after is None else refused.retry_after)

    def _learn(self, model: str, refused: ProviderFailure) -> None:
        if refused.context_limit is not None:
            self._on_limit(model, refused.context_limit)

    def _body(self, at: Endpoint, request: Request, quirks: Quirks) -> bytes:
        settings = self._settings
        terms = Terms(quirks, self._traits(request.model), self._extra, settings.images, settings.prompt_caching)
        try:
            return self._format.body(request, terms)
        except Unsendable as error:
            raise at.fail("bad_request", f"{self._name}/{request.model}: {error} Nothing was sent.") from None

    def _priced(self, reply: Reply, model: str) -> Reply:
        price = self._traits(model).price
        if price is None or reply.usage is None:
            return reply
        return msgspec.structs.replace(reply, usage=with_cost(reply.usage, price))

    def _url(self, model: str, quirks: Quirks) -> str:
        versioned = self._settings.base_url.partition("?")[0].rstrip("/").endswith("/v1")
        own = quirks.path if quirks.path and not versioned else ""
        return self.url(own.replace("{model}", quote(model, safe="")) or self._format.path)

    def _endpoint(self, url: str, key: Key, model: str = "") -> Endpoint:
        return Endpoint(self._name, url, model, key.source, key.value)

    def _headers(self, at: Endpoint) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        headers |= self._format.headers
        if at.key:
            if not at.key.isascii() or not at.key.isprintable():
                raise at.fail("auth", f"The key in {at.key_env} holds characters that no header can carry.")
            header = self._settings.key_header or self._quirks.key_header or self._format.key_header
            headers[header] = f"Bearer {at.key}" if header == "authorization" else at.key
        for name, value in self._settings.headers.items():
            if not (name + value).isascii() or not value.isprintable():
                raise at.fail("bad_request", f"providers.{self._name}.headers.{name} cannot be sent: not plain ASCII.")
            headers[name.lower()] = value
        return headers

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx

            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=60)
            local = is_loopback(self._settings.base_url)
            stall = self._settings.stall_timeout or None
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(stall, connect=self._settings.connect_timeout or None, pool=None),
                limits=limits,
                # An http:// endpoint needs no certificates, whose loading costs more than the rest of the client.
                verify=self._settings.verify_tls and self._settings.base_url.startswith("https:"),
                trust_env=not local,
                headers={"user-agent": "hermes-daemon"},
            )
        return self._client


def is_loopback(url: str) -> bool:
    """Whether the address is on this machine, where no proxy of the environment should stand in between."""
    from ipaddress import ip_address  # with the first turn only, like the client itself

    try:
        host = (urlsplit(url).hostname or "").lower()
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


def _joined(before: Reply | None, reply: Reply) -> Reply:
    """One reply of an answer that came in two."""
    if before is None:
        return reply
    message = msgspec.structs.replace(reply.message, parts=(*before.message.parts, *reply.message.parts))
    usages = [usage for usage in (before.usage, reply.usage) if usage is not None]
    usage = usages[0] + usages[1] if len(usages) == 2 else usages[0] if usages else None
    return Reply(message, reply.stop, usage)
