"""The client that all plugins share: it asks, or says why not, and never raises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from hermes_daemon.api import Http, HttpReply, Refused, Rejected, Unavailable

from .answers import Answer
from .backends import Backend, Health, Send, SystemOne
from .breaker import Breaker, State
from .declines import Declined
from .heads import Labels, labels_of, parsed, rendered
from .heuristic import Heuristic
from .openai_chat import OpenAIChat
from .questions import checked
from .tally import Tally

BACKENDS: Final[dict[str, Callable[[], Backend]]] = {
    "systemone": SystemOne,
    "openai_chat": OpenAIChat,
    "heuristic": Heuristic,
}
MOST_REPLY_BYTES: Final = 4 * 1_048_576
POLL_S: Final = 0.02
T = TypeVar("T")


class Settings(msgspec.Struct, frozen=True):
    """As in plugin.yaml; seconds and characters."""

    endpoint: str = ""
    served_model: str = ""
    api_key_env: str = ""
    backend: str = "systemone"
    timeout: float = 2.0
    connect_timeout: float = 0.5
    breaker_failures: int = 3
    breaker_reset: float = 30.0
    max_state_chars: int = 100_000


class Cancel(Protocol):
    """Says that nobody wants the answer any more; asyncio's and threading's Event are two of them."""

    def is_set(self) -> bool: ...


class ClassifierClient:
    """One for the endpoint, for all callers, all sessions and all threads: it is the service `classifier_core`.

    Nothing is sent before the first call. Refused for settings that can never work. `secret` looks up the key at each
    call. What goes wrong is counted against the caller; of a request, a reply or a key nothing is logged.
    """

    def __init__(
        self,
        settings: Settings,
        http: Callable[[], Http],
        secret: Callable[[str], str | None],
        monotonic: Callable[[], float],
        log: logging.Logger,
    ) -> None:
        self.settings = settings
        self.backend = BACKENDS[settings.backend]()
        self.endpoint = _endpoint(settings.endpoint, self.backend.tails)
        self.tally = Tally()
        self.breaker = Breaker(settings.breaker_failures, settings.breaker_reset, monotonic, self._told)
        self._http, self._secret, self._log = http, secret, log

    async def ask(
        self,
        caller: str,
        state: Any,
        questions: Mapping[str, Mapping[str, Any]],
        *,
        cancel: Cancel | None = None,
    ) -> dict[str, Answer] | None:
        """An answer for each question, with probabilities; None when the call is declined, which is counted.

        `state` is text, or a JSON object or list. Questions are {id: {"type", "instructions", "criteria"}}, see
        questions.py. `cancel` ends the call with None; a cancelled task is counted as well and stays cancelled.
        """
        return await self._counted(caller, self._ask(state, questions, cancel))

    async def classify(
        self,
        caller: str,
        state: Any,
        heads: Mapping[str, Mapping[str, Any]],
        *,
        cancel: Cancel | None = None,
    ) -> dict[str, Labels] | None:
        """The label of each head, of a head with `cls_threshold` a tuple of all labels that reach it; None when the
        call is declined. Heads are {id: {"labels", "instructions", "cls_threshold"}}, see heads.py."""

        async def work() -> dict[str, Labels]:
            wanted = parsed(heads)
            return labels_of(wanted, await self._ask(state, rendered(wanted), cancel))

        return await self._counted(caller, work())

    def ask_blocking(self, caller: str, state: Any, questions: Mapping[str, Mapping[str, Any]], *,
                     cancel: Cancel | None = None) -> dict[str, Answer] | None:  # fmt: skip
        """`ask` for code in a thread of its own; not for an event loop."""
        return asyncio.run(self.ask(caller, state, questions, cancel=cancel))

    def classify_blocking(self, caller: str, state: Any, heads: Mapping[str, Mapping[str, Any]], *,
                          cancel: Cancel | None = None) -> dict[str, Labels] | None:  # fmt: skip
        """`classify` for code in a thread of its own; not for an event loop."""
        return asyncio.run(self.classify(caller, state, heads, cancel=cancel))

    async def probe(self) -> Health:
        """One fresh request for the service's health, whatever the breaker says; it changes nothing."""
        try:
            key = self._configured()
            return await self.backend.health(self._sender(key), self.settings.served_model)
        except Declined as declined:
            return Health(False, None, str(declined))
        except (Unavailable, Rejected) as error:
            return Health(False, None, str(error))

    @property
    def healthy(self) -> bool:
        """The breaker is closed, and no call was ever declined for want of configuration."""
        return self.breaker.state == "closed" and not self.tally.ever("not_configured")

    # --- one call ---

    async def _counted(self, caller: str, work: Awaitable[T]) -> T | None:
        try:
            result = await work
        except Declined as declined:
            self.tally.decline(caller, declined.reason, declined.problem)
            return None
        except asyncio.CancelledError:
            self.tally.decline(caller, "cancelled")
            raise  # whoever cancelled the task waits for it to end; to go on would undo that
        except Exception as error:  # whatever it is, the caller goes on; words of it could hold what was asked
            self.tally.decline(caller, "service_error", f"a fault of our own ({type(error).__name__})")
            self._log.error("classifier %s: a fault of our own (%s)", self.endpoint, type(error).__name__)
            return None
        self.tally.accept(caller)
        return result

    async def _ask(self, state: Any, questions: Mapping[str, Any], cancel: Cancel | None) -> dict[str, Answer]:
        if cancel is not None and cancel.is_set():
            raise Declined("cancelled")
        key = self._configured()
        asked = checked(questions)
        self._expect_size(state)
        ticket = self.breaker.enter()
        if ticket is None:
            raise Declined("breaker_open")
        try:
            work = self.backend.ask(self._sender(key), self.settings.served_model, state, asked)
            answers = await _unless(cancel, work)
        except Unavailable as error:
            self.breaker.failed(ticket)
            raise Declined("service_error", str(error)) from None
        except Declined as declined:
            if declined.failure:
                self.breaker.failed(ticket)
            elif declined.reason == "cancelled":
                self.breaker.released(ticket)
            else:
                self.breaker.answered(ticket)
            raise
        except BaseException:
            self.breaker.released(ticket)
            raise
        self.breaker.succeeded(ticket)
        return answers

    def _configured(self) -> str:
        """The key of now, "" for none. Declined where something is missing."""
        settings = self.settings
        if self.backend.needs_endpoint and not self.endpoint:
            raise Declined("not_configured", "the setting endpoint is empty")
        if self.backend.needs_model and not settings.served_model:
            raise Declined("not_configured", "the setting served_model is empty")
        if not settings.api_key_env or not self.backend.needs_endpoint:
            return ""
        key = (self._secret(settings.api_key_env) or "").strip()
        if not key:
            raise Declined("not_configured", f"{settings.api_key_env} is not set")
        if not key.isascii() or not key.isprintable():
            raise Declined("not_configured", f"{settings.api_key_env} holds characters that no header can carry")
        return key

    def _expect_size(self, state: Any) -> None:
        if not isinstance(state, str | Mapping | list | tuple) or not state or (
            isinstance(state, str) and not state.strip()
        ):  # fmt: skip
            raise Declined("text_limits", "the state: expected text, an object or a list that is not empty")
        try:
            chars = len(state) if isinstance(state, str) else len(msgspec.json.encode(state).decode())
            if isinstance(state, str):
                state.encode()
        except (TypeError, ValueError, RecursionError):
            raise Declined("text_limits", "the state holds something that JSON cannot carry") from None
        if chars > self.settings.max_state_chars:
            most = self.settings.max_state_chars
            raise Declined("text_limits", f"the state has {chars:,} characters; at most {most:,} are sent")

    def _sender(self, key: str) -> Send:
        headers = {"accept": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})

        async def send(method: str, path: str, body: bytes | None = None) -> HttpReply:
            return await self._http().request(
                method,
                f"{self.endpoint}/{path}",
                headers=headers | ({"content-type": "application/json"} if body is not None else {}),
                body=body,
                timeout_s=self.settings.timeout,
                connect_timeout_s=self.settings.connect_timeout,
                max_bytes=MOST_REPLY_BYTES,
            )

        return send

    def _told(self, before: State, after: State) -> None:
        self._log.warning("classifier %s: the breaker goes from %s to %s", self.endpoint, before, after)


async def _unless(cancel: Cancel | None, work: Awaitable[T]) -> T:
    """What `work` gives; Declined as cancelled once `cancel` is set. It is looked at now and then, as an event of
    threads cannot be awaited."""
    if cancel is None:
        return await work
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            if cancel.is_set():
                raise Declined("cancelled")
            await asyncio.wait({task}, timeout=POLL_S)
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # it was seen, whoever was told of it


def _endpoint(given: str, tails: Sequence[str]) -> str:
    """The base address. Refused for what cannot be asked, or would show a secret wherever the endpoint is named."""
    text = given.strip().rstrip("/")
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise Refused("settings.endpoint: expected an address such as http://127.0.0.1:8088")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Refused("settings.endpoint: expected an address without a user, a key or a query",
                      "A key belongs into the environment variable that api_key_env names.")  # fmt: skip
    for tail in tails:
        text = text.removesuffix(tail)
    return text
