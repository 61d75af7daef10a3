"""What a wire format is to the rest of the daemon: a body, a reader, and how the two are moved over HTTP.

A format is data and functions without IO. `http_provider` is the one place that talks to the network for all of them;
`presets` says what differs between servers of one format; the catalog says what is known of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from hermes_daemon.core.ports import Chunk, ProviderFailure, Reply, Request
from hermes_daemon.providers.prices import Price

FormatName: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic_messages", "ollama"]
KeyHeader: TypeAlias = Literal["authorization", "x-api-key", "api-key"]


class Malformed(Exception):
    """A piece of the stream that is not what the format says; the text names what was read."""


class ErrorObject(Exception):
    """The server put an error where an answer should stand. `error` is its JSON, whatever shape it has."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


class Unsendable(Exception):
    """The request asks for something that this model or format does not take; the text says what and what it takes."""


class Event(NamedTuple):
    """One event of a stream: its data, and its name ("" when none was given)."""

    data: str
    name: str = ""


class TooLong(ValueError):
    """A line or an event is longer than the reader accepts; the stream cannot be followed any further."""


class Framing(Protocol):
    """Bytes in any cut to events."""

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete. Raises TooLong."""
        ...

    def finish(self) -> list[Event]:
        """The event that the end of the stream left open, if there is one."""
        ...


class StreamReader(Protocol):
    """Reads one answer, event by event."""

    @property
    def finished(self) -> bool:
        """The reason of the end has come: what may follow is the usage only."""
        ...

    @property
    def done(self) -> bool:
        """The last event of the format has come."""
        ...

    @property
    def paused(self) -> bool:
        """The answer is to be asked on: the same request with the reply behind it."""
        ...

    def feed(self, data: str) -> list[Chunk]:
        """The chunks of one event. Raises Malformed, ErrorObject."""
        ...

    def reply(self) -> Reply | None:
        """The whole answer, or None when the stream ended before the server said that it had finished.

        Raises Malformed when a call in it is half: its name or the end of its arguments never came.
        """
        ...


class Quirks(msgspec.Struct, frozen=True):
    """What differs between servers of one format. Presets hold it as data; some of it is learned from refusals.

    `efforts` names a table of providers.efforts; `path` replaces the format's own, with `{model}` filled in.
    """

    key_header: KeyHeader | None = None
    path: str = ""
    efforts: str = ""
    include_usage: bool = True
    output_limit: str = "max_tokens"
    temperature: bool = True
    nine_character_ids: bool = False
    cache_key: bool = False
    encrypted_reasoning: bool = True


class Traits(msgspec.Struct, frozen=True):
    """What is known of one model; None = unknown. `efforts` are the words of the vocabulary it takes; `price_from` is
    who says the price: settings, endpoint, or bundled and the day it was noted."""

    context_length: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    vision: bool | None = None
    reasoning: bool | None = None
    cache: bool | None = None
    efforts: tuple[str, ...] | None = None
    adaptive_thinking: bool = False
    price: Price | None = None
    price_from: str = ""


class Terms(msgspec.Struct, frozen=True):
    """On which terms one request is written: the server's quirks, the model's traits, and what the settings want."""

    quirks: Quirks = Quirks()
    traits: Traits = Traits()
    extra: Mapping[str, Any] = {}
    images: Literal["placeholder", "refuse"] = "placeholder"
    prompt_caching: bool = True


class WireFormat(NamedTuple):
    """A format: paths below base_url, framing, the body of a call, the reader of its answer.

    `tails` are endings of base_url that people write and that the paths bring already. `lines` says that an answer is
    read line by line whatever it is labelled as.
    `otherwise` gives the quirks that avoid what a refusal named, or None when it named nothing of that.
    """

    name: FormatName
    path: str
    models_path: str
    tails: tuple[str, ...]
    key_header: KeyHeader
    headers: Mapping[str, str]
    lines: bool
    framing: Callable[[], Framing]
    body: Callable[[Request, Terms], bytes]
    reader: Callable[[Request], StreamReader]
    otherwise: Callable[[Quirks, ProviderFailure], Quirks | None]


def without_temperature(quirks: Quirks, refused: ProviderFailure) -> Quirks | None:
    """The quirks of a model that refused a temperature by name, as those that think do; None when it did not."""
    if not quirks.temperature or "temperature" not in refused.message:
        return None
    return msgspec.structs.replace(quirks, temperature=False)


def encoded(body: dict[str, Any]) -> bytes:
    """The body as JSON; what no UTF-8 holds (a lone surrogate somewhere) is replaced."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(body))


def decoded(data: str) -> dict[str, Any]:
    """The JSON object of one event. Raises Malformed."""
    try:
        read = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise Malformed(f"{error}: {data[:120]!r}") from None
    if not isinstance(read, dict):
        raise Malformed(f"an event that is no object: {data[:120]!r}")
    return read


def _encodable(value: Any) -> Any:
    """The same value with surrogate pairs joined and lone surrogates replaced."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value
