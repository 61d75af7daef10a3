"""One round: from the history to the model's message. Reads top to bottom like the order it must keep.

messages, context_blocks, prompt -> turn.answer -> request -> llm_request -> pre_api_request -> llm_execution around
the provider's stream -> post_api_request or api_request_error -> retry.
"""

from __future__ import annotations

import asyncio
import math
import random
from typing import TYPE_CHECKING, Any

import msgspec

from hermes_daemon.core import history as laws
from hermes_daemon.core import window
from hermes_daemon.core.facts import Fact, ModelFailed, ModelReplied
from hermes_daemon.core.ports import (
    ModelInfo,
    Provider,
    ProviderFailure,
    ReasoningDelta,
    Refused,
    Reply,
    Request,
    TextDelta,
)
from hermes_daemon.core.prompt import Prompt
from hermes_daemon.core.records import DropItem
from hermes_daemon.core.retry import RetryPlan, next_attempt
from hermes_daemon.core.telemetry import ModelCalled
from hermes_daemon.engine import prompting
from hermes_daemon.engine.detour import Detour, detour
from hermes_daemon.engine.emitted import Draft
from hermes_daemon.engine.growing import Growing
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.meter import ms
from hermes_daemon.engine.passage import Corrected, Passage
from hermes_daemon.middleware.answers import CODE, DeterministicTurnError, message_of
from hermes_daemon.middleware.payloads import ApiCall, ApiDone, ApiFailed, Question, Retry, StreamPart
from hermes_daemon.middleware.styles import ExecutionBlocked, MiddlewareError
from hermes_protocol.content import Deterministic, Message, Part, ReasoningPart, TextPart, Usage
from hermes_protocol.events import (
    AgentMessage,
    AnyItem,
    Failure,
    ItemDiscarded,
    Notice,
    Reasoning,
    TurnCount,
    TurnRetrying,
)

if TYPE_CHECKING:
    from hermes_daemon.engine.runner import Runner

YIELD_EVERY = 32


class ModelCall:
    """One round of a turn. `run` gives the fact; what people saw of it stays readable meanwhile."""

    def __init__(self, runner: Runner, history: tuple[Message, ...], round: int) -> None:
        self._runner = runner
        self._session = runner.session
        self._history = history
        self._round = round
        self._text: Growing | None = None
        self._reasoning: Growing | None = None
        self._recorded = False
        self._said = 0
        self._retries = 0
        self._asked_at = 0.0
        self._first_token: float | None = None
        self._usage: Usage | None = None
        self._cause: ProviderFailure | None = None
        self._ids = {"api_request_id": ""}
        self._points = runner.passage(self._ids)
        self._deterministic_by: Deterministic | None = None
        self._first_chunk_at: str | None = None

    async def run(self) -> Fact:
        """ModelReplied or ModelFailed. Cancellation closes the provider's connection."""
        runner, session = self._runner, self._session
        try:
            wanted = runner.stand_in or runner.options.model or session.row.options.model
            provider, model = session.parts.models.resolve(wanted)
            runner.model_id, runner.model = model.id, model
            with runner.meter.during("prompt"):
                prompt = await prompting.prompt(runner, self._points, model, self._history)
            answer = await self._answered(prompt)
            if answer is not None:
                return await self._deterministic(answer)
            with runner.meter.during("prompt"):
                request = await prompting.request(runner, self._points, model, prompt)
            while True:
                fact = await self._measured(provider, model, request)
                other = self._cause and detour(runner, model, request, self._cause)
                if not other:
                    return fact
                await self._go_on(other, model)
                provider, model = session.parts.models.resolve(other.model)
                runner.model_id, runner.model = model.id, model
                self._points.trace, self._points.original = (), None
                with runner.meter.during("prompt"):
                    prompt = await prompting.prompt(runner, self._points, model, self._history)
                    request = await prompting.request(runner, self._points, model, prompt)
        except Refused as refused:
            return ModelFailed(Failure(refused.kind, str(refused)), self.partial())
        except ExecutionBlocked as veto:
            words = session.parts.redact(f"a middleware stopped the model call: {veto}")
            return ModelFailed(Failure("blocked", words), self.partial())
        except MiddlewareError as error:
            return ModelFailed(Failure("middleware", session.parts.redact(str(error))), self.partial())
        except DeterministicTurnError as error:
            words = session.parts.redact(f"the answer of a middleware is none: {error}")
            return ModelFailed(Failure("deterministic_turn", words, data={"code": CODE}))

    # --- without a provider ---

    async def _answered(self, prompt: Prompt) -> Any:
        """What a link answered, not yet checked; None when it is for the model."""
        if not self._points.has("turn.answer"):
            return None
        asked = Question(self._session.session_id, self._runner.turn_id, self._round, _user_text(prompt.messages))

        def check(before: Question, after: Question) -> Question:
            return msgspec.structs.replace(before, answer=after.answer)

        return (await self._points.fold("turn.answer", asked, check)).answer

    async def _deterministic(self, answer: Any) -> Fact:
        """In this order: check, look for an interrupt, charge, pass `output`, show. What stops it leaves nothing."""
        runner, redact = self._runner, self._session.parts.redact
        message = message_of(answer)
        await asyncio.sleep(0)
        if runner.stopping:
            raise asyncio.CancelledError
        self._charge("".join(part.text for part in message.parts if isinstance(part, (TextPart, ReasoningPart))))
        message = await self._final(message)
        parts = tuple(
            msgspec.structs.replace(part, text=redact(part.text))
            if isinstance(part, (TextPart, ReasoningPart))
            else part
            for part in message.parts
        )
        message = msgspec.structs.replace(message, parts=parts)
        runner.rounds = TurnCount(runner.rounds.model, runner.rounds.deterministic + 1)
        self._deterministic_by = message.deterministic
        for part in message.parts:
            if isinstance(part, ReasoningPart):
                await self._show_reasoning(part.text)
            elif isinstance(part, TextPart):
                await self._show_text(part.text)
        return ModelReplied(message, "stop")

    def _charge(self, text: str) -> None:
        """Refused when the turn has said more than the setting agent.max_response_bytes."""
        most = self._session.parts.settings().agent.max_response_bytes
        if most:
            self._runner.response_bytes += len(text.encode("utf-8", "replace"))
            if self._runner.response_bytes > most:
                raise Refused(f"the answers of this turn are longer than agent.max_response_bytes ({most:,})",
                              kind="too_large")  # fmt: skip

    async def _final(self, message: Message) -> Message:
        """The message after `output`."""
        text = message.text
        changed = await self._points.fold("output", text)
        return message if changed == text else _with_text(message, self._session.parts.redact(changed))

    # --- the provider ---

    async def _measured(self, provider: Provider, model: ModelInfo, request: Request) -> Fact:
        """All attempts, and what they took."""
        began = self._runner.meter.now()
        outcome, failed = "cancelled", True
        try:
            fact = await self._attempts(provider, model, request)
            if isinstance(fact, ModelReplied):
                outcome, failed = fact.stop, False
            elif isinstance(fact, ModelFailed):
                outcome = fact.failure.kind
            return fact
        except (ExecutionBlocked, MiddlewareError):
            outcome = "blocked"
            raise
        except Exception:
            outcome = "internal"
            raise
        finally:
            if self._session.parts.telemetry.wanted:
                self._tell(model, outcome, failed, self._runner.meter.now() - began)

    def _tell(self, model: ModelInfo, outcome: str, failed: bool, took_s: float) -> None:
        usage = self._usage or Usage()
        fact = ModelCalled(
            provider=model.provider,
            model=model.name,
            outcome=outcome,
            failed=failed,
            round=self._round,
            retries=self._retries,
            duration_ms=ms(took_s),
            first_token_ms=None if self._first_token is None else ms(self._first_token - self._asked_at),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cost=usage.cost,
        )
        self._session.parts.telemetry.emit(fact, self._session.session_id, self._runner.turn_id)

    async def _attempts(self, provider: Provider, model: ModelInfo, request: Request) -> Fact:
        before = self._points.trace
        attempt = 1
        self._cause = None
        while True:
            self._ids["api_request_id"] = new_id("api")
            self._points.trace = before
            done = await self._attempt(provider, model, request, attempt)
            if not isinstance(done, RetryPlan):
                return done
            attempt = done.attempt
            self._retries += 1

    async def _attempt(
        self, provider: Provider, model: ModelInfo, request: Request, attempt: int
    ) -> ModelReplied | ModelFailed | RetryPlan:
        """One attempt, all its points passed; a RetryPlan when what it showed was taken back and its wait is over."""
        clock = self._session.parts.clock
        call = _Attempt(request, attempt - 1, clock.now(), clock.monotonic())
        await self._points.observe("pre_api_request", lambda: self._about_to(call))
        try:
            reply = await self._execute(provider, request)
        except ProviderFailure as failure:
            await self._tell_failed(call, failure.kind, failure.message, failure.retryable, failure.status)
            settings = self._session.parts.settings().agent
            plan = next_attempt(failure, attempt, settings, visible=False, rand=random.random())  # noqa: S311
            plan = await self._retried(failure, plan) if plan is not None else None
            if plan is None:
                self._cause = failure
                return ModelFailed(self._failure(failure), self.partial())
            await self._again(failure, plan)
            return plan
        except (ExecutionBlocked, MiddlewareError) as veto:
            await self._tell_failed(call, "blocked", str(veto), False, None)
            raise
        await self._points.observe("post_api_request", lambda: self._done(call, model, reply))
        self._account(model, request, reply.usage)
        await self._complete(reply.message)
        if not reply.message.calls:
            return ModelReplied(await self._final(reply.message), reply.stop)
        if reply.message.text:
            self._points.tell("on_interim_message", lambda: StreamPart(reply.message.text, finished=True))
        return ModelReplied(reply.message, reply.stop)

    async def _retried(self, failure: ProviderFailure, plan: RetryPlan) -> RetryPlan | None:
        """The plan as `retry` leaves it."""
        if not self._points.has("retry"):
            return plan
        asked = Retry(failure.kind, plan.attempt, plan.delay, status_code=failure.status)
        said = await self._points.fold("retry", asked, _only_when)
        return msgspec.structs.replace(plan, delay=said.delay) if said.retry else None

    def _about_to(self, call: _Attempt) -> ApiCall:
        request = call.request
        tokens = window.request_tokens(request.messages, request.system, request.tools)
        return ApiCall(request, call.retries, len(request.messages), len(request.tools), tokens, call.started_at,
                       request.max_output, request.system)  # fmt: skip

    def _done(self, call: _Attempt, model: ModelInfo, reply: Reply) -> ApiDone:
        clock, message = self._session.parts.clock, reply.message
        return ApiDone(
            reply=reply,
            payload=call.request,
            finish_reason=reply.stop,
            api_duration=clock.monotonic() - call.began,
            started_at=call.started_at,
            ended_at=clock.now(),
            assistant_message=message,
            assistant_content_chars=len(message.text),
            assistant_tool_call_count=len(message.calls),
            usage=reply.usage,
            first_chunk_at=self._first_chunk_at,
            context_length=model.context_length,
            response_model=call.request.model,
        )

    async def _tell_failed(self, call: _Attempt, reason: str, text: str, again: bool, status: int | None) -> None:
        clock, parts = self._session.parts.clock, self._session.parts
        await self._points.observe("api_request_error", lambda: ApiFailed(
            payload=call.request,
            reason=reason,
            error_message=parts.redact(text),
            retryable=again,
            retry_count=call.retries,
            max_retries=parts.settings().agent.api_max_retries,
            api_duration=clock.monotonic() - call.began,
            started_at=call.started_at,
            ended_at=clock.now(),
            status_code=status,
        ))  # fmt: skip

    async def _complete(self, message: Message) -> None:
        """A reply that a middleware gave whole, without deltas, is shown like any other."""
        if self._text is None and message.text:
            await self._show_text(message.text)

    async def _execute(self, provider: Provider, request: Request) -> Reply:
        if not self._points.has("llm_execution"):
            return await self._stream(provider, request)
        meter = self._runner.meter
        began, streamed = meter.now(), meter.spent["model"]

        async def call(final: Request) -> Reply:
            kept = prompting.narrowed(request, final)
            return await self._stream(provider, kept.value if isinstance(kept, Corrected) else kept)

        try:
            reply = await self._points.around("llm_execution", request, call)
        finally:
            meter.wrapped(began, meter.spent["model"] - streamed)
        if not isinstance(reply, Reply):
            raise MiddlewareError(f"llm_execution: expected a Reply, got {type(reply).__name__}")
        return reply

    async def _stream(self, provider: Provider, request: Request) -> Reply:
        """Deltas go to the feed as they come; the last chunk is the reply."""
        meter = self._runner.meter
        self._asked_at, self._first_token = meter.now(), None
        self._first_chunk_at = None
        told = _Watched(self._points, self._session.parts.settings().plugins.stream_reasoning_deltas)
        said, ending = len(self._text.text) if self._text is not None else 0, "cancelled"
        stream = provider.stream(request)
        try:
            async for chunk in stream:
                if isinstance(chunk, TextDelta):
                    self._charge(chunk.text)
                    await self._show_text(chunk.text)
                    told.say(chunk.text)
                elif isinstance(chunk, ReasoningDelta):
                    self._charge(chunk.text)
                    await self._show_reasoning(chunk.text)
                    told.say(chunk.text, reasoning=True)
                elif isinstance(chunk, Reply):
                    ending = ""
                    return chunk
            raise ProviderFailure(
                "incomplete", "the stream ended without a reply", provider=provider.name, retryable=True
            )
        except Exception as error:
            ending = self._session.parts.redact(str(error)) or type(error).__name__
            raise
        finally:
            if self._first_token is not None and ending:  # it broke off in the middle of an answer: billed all the same
                self._runner.spending.add(self._runner, self._runner.model_id, self._round, None)
            meter.spent["model"] += meter.now() - self._asked_at
            told.end(self._text.text[said:] if self._text is not None else "", ending)
            await stream.aclose()  # type: ignore[attr-defined]

    async def _show_text(self, text: str) -> None:
        if self._text is None:
            self._text = await self._begin(AgentMessage)
        await self._say(self._text, text)

    async def _show_reasoning(self, text: str) -> None:
        if self._reasoning is None:
            self._reasoning = await self._begin(Reasoning)
        await self._say(self._reasoning, text)

    async def _begin(self, kind: type[AgentMessage] | type[Reasoning]) -> Growing:
        runner = self._runner
        item = kind(
            item_id=new_id("item"),
            turn_id=runner.turn_id,
            status="inProgress",
            created_at=self._session.parts.clock.now(),
            text="",
            model=runner.model_id,
        )
        if isinstance(item, AgentMessage) and self._deterministic_by is not None:
            item = msgspec.structs.replace(item, deterministic=self._deterministic_by)
        if self._first_token is None:
            self._first_token = runner.meter.token_came()
            self._first_chunk_at = item.created_at
        growing = Growing(self._session.feed, runner.turn_id, item, "text")
        await growing.begin()
        return growing

    async def _say(self, growing: Growing, text: str) -> None:
        if not growing.say(text):
            await growing.catch_up()
        self._said += 1
        if self._said % YIELD_EVERY == 0:
            await asyncio.sleep(0)  # a stream that never waits must not keep the subscribers waiting

    async def _go_on(self, other: Detour, model: ModelInfo) -> None:
        """Make the rest of the turn's calls by the way that was found."""
        runner = self._runner
        assert self._cause is not None
        runner.room = other.room
        changed = "" if other.model == model.id else other.model
        if changed:
            runner.stand_in = changed
        notice = Notice("warning", other.told, "model.fallback" if changed else "context.retried")
        await self._session.feed.post([Draft(notice, runner.turn_id)])
        self._retries += 1
        await self._again(self._cause, RetryPlan(self._retries + 1, 0.0, other.told), changed)

    async def _again(self, failure: ProviderFailure, plan: RetryPlan, model: str = "") -> None:
        """Say that it will be tried again, take back what was shown, and wait."""
        drafts = [
            Draft(ItemDiscarded("the model call is tried again"), self._runner.turn_id, growing.item.item_id)
            for growing in (self._reasoning, self._text)
            if growing is not None
        ]
        ops = [
            DropItem(session_id=self._session.session_id, item_id=draft.item_id) for draft in drafts if draft.item_id
        ]
        self._text = self._reasoning = None
        retrying = TurnRetrying(plan.attempt, int(plan.delay * 1000), self._failure(failure), model)
        await self._session.feed.post([*drafts, Draft(retrying, self._runner.turn_id)], ops)
        await self._session.parts.clock.sleep(plan.delay)

    def _account(self, model: ModelInfo, request: Request, usage: Usage | None) -> None:
        runner = self._runner
        runner.rounds = TurnCount(runner.rounds.model + 1, runner.rounds.deterministic)
        runner.spending.add(runner, model.id, self._round, usage)
        if usage is None:
            return
        self._usage = usage
        read = usage.input_tokens  # those of the cache are among them
        sizes = sum(self._session.estimates.size_of(message) for message in request.messages)
        estimated = sizes + window.request_tokens((), request.system, request.tools)
        self._session.estimates.calibrate(model.id, estimated, read)
        runner.occupancy = window.occupancy(read + usage.output_tokens, model.context_length)

    # --- what people saw ---

    def partial(self) -> Message | None:
        """The assistant message of a round that did not finish, or None when nothing was said or it is recorded."""
        if self._recorded or self._text is None or not self._text.text:
            return None
        return Message("assistant", (TextPart(self._text.text),), partial=True)

    def items(self, message: Message) -> list[AnyItem]:
        """The items that this round's message completes."""
        self._recorded = True
        now = self._session.parts.clock.now()
        status: Any = "partial" if message.partial else "completed"
        done: list[AnyItem] = []
        thoughts = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
        if self._reasoning is not None:
            text = thoughts or self._reasoning.text
            done.append(msgspec.structs.replace(self._reasoning.item, text=text, status=status, completed_at=now))
        if self._text is not None:
            text = message.text or self._text.text
            done.append(msgspec.structs.replace(self._text.item, text=text, status=status, completed_at=now))
        return done

    def unfinished(self) -> list[AnyItem]:
        """Items still open when the turn ends, completed as partial."""
        return [] if self._recorded else self.items(Message("assistant", (), partial=True))

    def _failure(self, failure: ProviderFailure) -> Failure:
        """What people read of it. An endpoint may have repeated any key there is."""
        data: dict[str, Any] = {"provider": failure.provider}
        if failure.status is not None:
            data["status"] = failure.status
        if failure.retry_after is not None:
            data["retryAfterMs"] = int(failure.retry_after * 1000)
        return Failure(failure.kind, self._session.parts.redact(failure.message), failure.retryable, data)


class _Attempt(msgspec.Struct, frozen=True):
    """One attempt of a model call."""

    request: Request
    retries: int
    started_at: str
    began: float


class _Watched:
    """Observers of one stream. With none of them a delta costs a truth test."""

    def __init__(self, points: Passage, reasoning: bool) -> None:
        self._start = points.teller("on_stream_start", StreamPart(""))
        self._delta = points.teller("on_stream_delta", StreamPart(""))
        self._end = points.teller("on_stream_end", StreamPart(""))
        self._reasoning = reasoning
        self.wanted = bool(self._start or self._delta or self._end)

    def say(self, text: str, *, reasoning: bool = False) -> None:
        """A piece came."""
        if not self.wanted or (reasoning and not self._reasoning):
            return
        if self._start is not None:
            self._start(StreamPart("", reasoning=reasoning))
            self._start = None
        if self._delta is not None:
            self._delta(StreamPart(text, reasoning=reasoning))

    def end(self, text: str, error: str) -> None:
        """Nothing more comes: the whole text, and why when it is not complete."""
        if self._end is not None:
            self._end(StreamPart(text, not error, error))


def _user_text(messages: tuple[Message, ...]) -> str:
    """What the user said last, without what plugins added behind it."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and not laws.is_context(messages, index):
            return messages[index].text
    return ""


def _with_text(message: Message, text: str) -> Message:
    """The message with this for its text, where its first text was."""
    parts: list[Part] = []
    for part in message.parts:
        if not isinstance(part, TextPart):
            parts.append(part)
        elif text:
            parts.append(TextPart(text))
            text = ""
    return msgspec.structs.replace(message, parts=(*parts, *((TextPart(text),) if text else ())))


def _only_when(before: Retry, after: Retry) -> Retry:
    """A link may say whether and when, nothing else."""
    if not isinstance(after.retry, bool):
        raise TypeError(f"retry: expected true or false, got {after.retry!r}")
    if isinstance(after.delay, bool) or not isinstance(after.delay, (int, float)) or not 0 <= after.delay < math.inf:
        raise TypeError(f"delay: expected seconds, 0 or more; got {after.delay!r}")
    return msgspec.structs.replace(before, retry=after.retry, delay=float(after.delay))
