"""What went wrong at an endpoint, as one sentence a user can act on: which URL, what happened, what to do. Pure."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

import msgspec

from hermes_daemon.core.ports import FailureKind, ProviderFailure

BODY_CHARS = 400

_OVERFLOW = re.compile(
    r"context[ _]length|context limit|maximum context|context[ _](window|size)|context_overflow"
    r"|prompt is too long|too many tokens"
    r"|input (is too long|length exceeds)|exceeds? the (model'?s )?(maximum|max|available)[\w ]*(context|tokens|length)"
    r"|reduce the length|input tokens? (count )?exceeds?|max_prompt_tokens|token limit exceeded",
    re.IGNORECASE,
)
_NUMBER = r"(\d{1,3}(?:[,_ ]\d{3})+|\d+)"
# How servers name the window when they refuse: the number that is the limit, not the one that was sent.
_LIMITS = tuple(
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE)
    for pattern in (
        r"maximum context length (?:is|of) #",
        r"tokens? > # maximum",
        r"exceeds? context limit: .*> #",
        r"(?:maximum number of tokens allowed|maximum allowed(?: input)?(?: length)?|context (?:window|size|length)"
        r"|max_model_len|n_ctx)\W*(?:is|of|limit)?\W*#",
        r"(?:limit of|limited to|at most|maximum of|max(?:imum)? tokens?:?) #",
    )
)
# What an error inside a stream, which has no status, would have had for one.
_MEANT = {
    "authentication_error": 401, "invalid_api_key": 401, "permission_error": 403, "billing_error": 402,
    "insufficient_quota": 402, "rate_limit_error": 429, "rate_limit_exceeded": 429, "not_found_error": 404,
    "invalid_request_error": 400, "invalid_prompt": 400, "request_too_large": 413, "overloaded_error": 529,
    "RESOURCE_EXHAUSTED": 429, "INVALID_ARGUMENT": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403,
    "image_content_policy_violation": 451, "content_filter": 451, "bio_policy": 451,
    "misalignment_policy_violation": 451,
}  # fmt: skip
_PER_TIME = re.compile(r"per (min|minute|hour|day)|\b[TR]PM\b|rate[ _]limit", re.IGNORECASE)
_QUOTA = re.compile(
    r"insufficient[_ ](quota|balance|credits?)|exceeded your current quota|billing|payment", re.IGNORECASE
)
_NO_MODEL = re.compile(
    r"model_not_found|model[\w\s`'\"/:.-]*(not found|does not exist|not exist|not supported|unknown)"
    r"|(no such|unknown|invalid) model|not a valid model|no endpoints found",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content[_ ](filter|policy|management)|moderation|safety (system|policy)", re.IGNORECASE)
_SECRETS = re.compile(r"(?i)\b(bearer\s+)\S+|\b((?:sk|pk|gsk|xai|hf)[-_])[A-Za-z0-9_\-*.]{6,}")
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)


class Endpoint(msgspec.Struct, frozen=True):
    """Who was asked: for the sentences. `key` is only ever used to take it out of what is shown."""

    provider: str
    url: str
    model: str = ""
    key_env: str = ""
    key: str = ""

    def __repr__(self) -> str:
        return f"Endpoint({self.provider!r}, {self.url!r}, {self.model!r})"  # never the key

    def fail(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        context_limit: int | None = None,
    ) -> ProviderFailure:
        """The failure, its message bounded and without secrets."""
        return ProviderFailure(
            kind,
            redact(message, self.key),
            provider=self.provider,
            status=status,
            retryable=retryable,
            retry_after=retry_after,
            context_limit=context_limit,
        )


def redact(text: str, key: str) -> str:
    """The text without the key and without anything that looks like one."""
    if len(key) >= 4:
        text = text.replace(key, "***")
    return _SECRETS.sub(lambda found: f"{found[1] or found[2]}***", text)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by `retry-after-ms` or `Retry-After` (seconds or HTTP date; `now` in epoch seconds).

    Never negative; None when the header is absent or says nothing usable. Header names are looked up in lower case
    in what httpx gives, which ignores case.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d*)?|\.\d+", text):
            return float(text) * unit
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    from email.utils import parsedate_to_datetime  # here, because it costs a start that never meets a date

    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(when.timestamp() - now, 0.0)


def error_text(text: str) -> tuple[str, str]:
    """(message, code and type) of an error body in any of the usual shapes, the message bounded to 400 characters."""
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _bounded(_MARKUP.sub(" ", text)), ""
    return error_words(raw)


def error_words(raw: Any) -> tuple[str, str]:
    """The same of decoded JSON: {"error": {...}}, {"error": "..."}, {"detail": ...}, {"message": ...}, [{...}]."""
    if isinstance(raw, list) and raw:
        raw = raw[0]
    if isinstance(raw, dict):
        inner = next((raw[name] for name in ("error", "errors", "detail") if raw.get(name)), raw)
        if isinstance(inner, list) and inner:
            inner = inner[0]
        if isinstance(inner, dict):
            words = next((inner[n] for n in ("message", "msg", "detail", "error") if inner.get(n)), None)
            codes = " ".join(str(inner[n]) for n in ("code", "type", "status") if inner.get(n) is not None)
            metadata = inner.get("metadata")
            if isinstance(metadata, dict) and metadata.get("raw"):  # gateways put the words of the model's host here
                words = f"{words} ({metadata['raw']})"
            return _bounded(_plain(words if words is not None else inner)), codes
        return _bounded(_plain(inner)), ""
    return _bounded(_plain(raw)), ""


def status_failure(at: Endpoint, status: int, headers: Mapping[str, str], body: bytes, now: float) -> ProviderFailure:
    """The failure for an HTTP status of 300 and above."""
    words, codes = error_text(redact(body.decode("utf-8", "replace"), at.key))
    said = f": {words}" if words else "."
    seen = f"{at.url} answered {status}{said}"
    if 300 <= status < 400:
        target = headers.get("location", "")
        return at.fail("bad_request", f"{at.url} redirects to {target}; set base_url to where it really is.",
                       status=status)  # fmt: skip
    kind, advice, retryable = _judge(at, status, f"{codes} {words}")
    wait = retry_after(headers, now) if retryable else None
    if wait is not None:
        advice = f"{advice} It asks to wait {wait:g} s."
    limit = context_limit(words) if kind == "context_overflow" else None
    return at.fail(
        kind, _sentence(seen, advice), status=status, retryable=retryable, retry_after=wait, context_limit=limit
    )


def stream_failure(at: Endpoint, error: Any) -> ProviderFailure:
    """The failure for an error object inside a stream that began well. Unknown ones count as passing trouble."""
    words, codes = error_words(error)
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    seen = f"{at.url} broke off its answer: {words}"
    meant = next((_MEANT[name] for name in codes.split() if name in _MEANT), 500)
    kind, advice, retryable = _judge(at, status or meant, f"{codes} {words}")
    limit = context_limit(words) if kind == "context_overflow" else None
    return at.fail(kind, _sentence(seen, advice), status=status, retryable=retryable, context_limit=limit)


def context_limit(words: str) -> int | None:
    """The window in tokens that the words of an overflow name, or None. Below 256 or beyond 100 million it is none."""
    for pattern in _LIMITS:
        if found := pattern.search(words):
            tokens = int(re.sub(r"[,_ ]", "", found[1]))
            if 256 <= tokens <= 100_000_000:
                return tokens
    return None


def transport_failure(at: Endpoint, error: BaseException, *, streaming: bool, stall_s: float) -> ProviderFailure:
    """The failure for an exception of the HTTP client (known by class name, so that it need not be imported here)."""
    name = type(error).__name__
    setting = f"providers.{at.provider}"
    if name == "ConnectTimeout":
        words = f"no connection in time ({setting}.connect_timeout). Is the address right and the network up?"
        return at.fail("network", f"{at.url}: {words}", retryable=True)
    if name in ("ReadTimeout", "WriteTimeout", "PoolTimeout"):
        what = "the answer stalled" if streaming else "no answer came"
        return at.fail("stall", f"{at.url}: {what} for {stall_s:g} s ({setting}.stall_timeout).", retryable=True)
    if name in ("UnsupportedProtocol", "InvalidURL", "LocalProtocolError"):
        return at.fail("bad_request", f"{at.url} cannot be asked: {error} Check {setting}.base_url and headers.")
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror | ssl.SSLError):
            return _name_or_tls_failure(at, cause, setting)
    if name == "ConnectError":
        refused = any(isinstance(c, OSError) and c.errno == errno.ECONNREFUSED for c in _causes(error))
        what = "nothing listens there (connection refused)" if refused else f"no connection ({_root(error)})"
        advice = f"Is the server running, and is {setting}.base_url right?"
        return at.fail("network", f"{at.url}: {what}. {advice}", retryable=True)
    what = "the connection broke off in the middle of the answer" if streaming else "the connection broke off"
    return at.fail("network", f"{at.url}: {what} ({_root(error)}).", retryable=True)


def _name_or_tls_failure(at: Endpoint, cause: socket.gaierror | ssl.SSLError, setting: str) -> ProviderFailure:
    if isinstance(cause, socket.gaierror):
        words = f"the name of the host was not found. Check {setting}.base_url and the network."
        return at.fail("network", f"{at.url}: {words}", retryable=True)
    if isinstance(cause, ssl.SSLCertVerificationError):
        words = f"the certificate was not accepted ({getattr(cause, 'verify_message', None) or cause.args[-1]})."
        advice = f"Check the address and the clock, or set {setting}.verify_tls: false for a server you trust."
        return at.fail("network", f"{at.url}: {words} {advice}")
    return at.fail("network", f"{at.url}: no TLS connection ({cause.reason or cause}). Is it an http:// server?")


def missing_key(at: Endpoint) -> ProviderFailure:
    """The failure when the named key is not there at all; nothing was sent."""
    return at.fail("auth", f"{at.provider} needs a key: set {at.key_env} in the environment of the daemon or in .env "
                   "of its home.")  # fmt: skip


def _judge(at: Endpoint, status: int, words: str) -> tuple[FailureKind, str, bool]:
    """(kind, what to do, whether another attempt may succeed)."""
    key = f"the key in {at.key_env}" if at.key_env else "whether it needs a key (api_key_env)"
    if status == 413 or (_OVERFLOW.search(words) and not (status == 429 and _PER_TIME.search(words))):
        return "context_overflow", "The conversation is too long for this model: compact it or start a new one.", False
    if status == 402 or (status in (403, 429, 500) and _QUOTA.search(words)):
        return "quota", f"Check the balance and plan that belong to {key}.", False
    if status == 451 or (status in (400, 403) and _FILTERED.search(words)):
        return "content_filter", "The provider's filter refused the request: say it in another way.", False
    if status == 401 or status == 403:
        return "auth", f"Check {key}.", False
    if status in (400, 404, 422) and _NO_MODEL.search(words):
        return "model_missing", f"The model {at.model!r} is not there: `hermes models --probe` lists what is.", False
    if status == 404 or status == 405:
        return (
            "bad_request",
            f"Nothing answers at this path: check providers.{at.provider}.base_url (is /v1 missing?).",
            False,
        )
    if status == 429:
        return "rate", "The provider limits how often it is asked.", True
    if status in (408, 409, 425) or (status >= 500 and status not in (501, 505)):
        return "overload", "The provider has trouble; it may pass.", True
    return "bad_request", "", False


def _sentence(seen: str, advice: str) -> str:
    seen = seen.rstrip()
    return f"{seen}{'' if seen.endswith(('.', '!', '?')) else '.'} {advice}".rstrip()


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and everything it came from, groups opened."""
    todo, seen = [error], set[int]()
    while todo:
        current = todo.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        todo.extend(cause for cause in (current.__cause__, current.__context__) if cause is not None)
        if isinstance(current, BaseExceptionGroup):
            todo.extend(current.exceptions)


def _root(error: BaseException) -> str:
    text = str(error).strip()
    return text or type(error).__name__


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _bounded(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= BODY_CHARS else f"{text[:BODY_CHARS]}…"
