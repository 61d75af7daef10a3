"""One round: from the history to the model's message. Reads top to bottom like the order it must keep.

messages, context_blocks, prompt -> turn.answer -> request -> llm_request -> pre_api_request -> llm_execution around
the provider's stream -> post_api_request or api_request_error -> retry.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

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
from hermes_daemon.middleware.styles import ExecutionBlocked, MiddlewareError, around, transform
from hermes_protocol.content import Message, ReasoningPart, TextPart, Usage
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

T = TypeVar("T")
YIELD_EVERY = 32


class Question(msgspec.Struct, frozen=True):
    """What `turn.answer` may answer without a model: set `answer` to a message of text parts."""

    session_id: str
    turn_id: str
    round: int
    user_text: str
    answer: Message | None = None


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

    async def run(self) -> Fact:
        """ModelReplied or ModelFailed. Cancellation closes the provider's connection."""
        runner, session = self._runner, self._session
        try:
            wanted = runner.model or runner.options.model or session.row.options.model
            provider, model = session.parts.models.resolve(wanted)
            runner.model_id = model.id
            with runner.meter.during("prompt"):
                prompt = await prompting.prompt(runner, model, self._history)
            answer = await self._answered(prompt)
            if answer is not None:
                runner.rounds = TurnCount(runner.rounds.model, runner.rounds.deterministic + 1)
                return await self._deterministic(answer)
            with runner.meter.during("prompt"):
                request = await prompting.request(runner, model, prompt)
            while True:
                fact = await self._measured(provider, model, request)
                other = self._cause and detour(runner, model, request, self._cause)
                if not other:
                    return fact
                await self._go_on(other, model)
                provider, model = session.parts.models.resolve(other.model)
                with runner.meter.during("prompt"):
                    prompt = await prompting.prompt(runner, model, self._history)
                    request = await prompting.request(runner, model, prompt)
        except Refused as refused:
            return ModelFailed(Failure(refused.kind, str(refused)))
        except ExecutionBlocked as veto:
            return ModelFailed(Failure("blocked", f"a middleware stopped the model call: {veto}"), self.partial())
        except MiddlewareError as error:
            return ModelFailed(Failure("middleware", str(error)), self.partial())

    # --- without a provider ---

    async def _answered(self, prompt: Prompt) -> Message | None:
        links = self._session.middleware.snapshot("turn.answer")
        if not links:
            return None
        meter = self._runner.meter
        user = next((message.text for message in reversed(prompt.messages) if message.role == "user"), "")
        asked = Question(self._session.session_id, self._runner.turn_id, self._round, user)
        with meter.during("middleware"):
            return (await transform(links, asked, self._runner, self._runner.report)).answer

    async def _deterministic(self, answer: Message) -> Fact:
        if answer.role != "assistant" or not answer.parts or answer.calls:
            return ModelFailed(Failure("middleware", "turn.answer must give an assistant message of text parts"))
        await self._say_text(answer.text)
        return ModelReplied(answer, "stop")

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
        attempt = 1
        self._cause = None
        while True:
            await self._runner.observe("pre_api_request", request)
            try:
                reply = await self._execute(provider, request)
            except ProviderFailure as failure:
                await self._runner.observe("api_request_error", failure)
                plan = next_attempt(
                    failure,
                    attempt,
                    self._session.parts.settings().agent,
                    visible=False,
                    rand=random.random(),  # noqa: S311
                )
                plan = await self._runner.fold("retry", plan) if plan is not None else None
                if plan is None:
                    self._cause = failure
                    return ModelFailed(self._failure(failure), self.partial())
                await self._again(failure, plan)
                attempt = plan.attempt
                self._retries += 1
                continue
            await self._runner.observe("post_api_request", reply)
            self._account(model, request, reply.usage)
            await self._complete(reply.message)
            message = reply.message if reply.message.calls else await self._runner.fold("output", reply.message)
            return ModelReplied(message, reply.stop)

    async def _complete(self, message: Message) -> None:
        """A reply that a middleware gave whole, without deltas, is shown like any other."""
        if self._text is None and message.text:
            await self._say_text(message.text)

    async def _execute(self, provider: Provider, request: Request) -> Reply:
        links = self._session.middleware.snapshot("llm_execution")
        if not links:
            return await self._stream(provider, request)
        meter = self._runner.meter
        began, streamed = meter.now(), meter.spent["model"]
        try:
            reply: Reply = await around(
                links, request, self._runner, lambda final: self._stream(provider, final), self._runner.report
            )
        finally:
            meter.wrapped(began, meter.spent["model"] - streamed)
        return reply

    async def _stream(self, provider: Provider, request: Request) -> Reply:
        """Deltas go to the feed as they come; the last chunk is the reply."""
        meter = self._runner.meter
        self._asked_at, self._first_token = meter.now(), None
        stream, billed = provider.stream(request), False
        try:
            async for chunk in stream:
                if isinstance(chunk, TextDelta):
                    await self._say_text(chunk.text)
                elif isinstance(chunk, ReasoningDelta):
                    await self._say_reasoning(chunk.text)
                elif isinstance(chunk, Reply):
                    billed = True
                    return chunk
        finally:
            if self._first_token is not None and not billed:  # it broke off in the middle of an answer
                self._runner.spending.add(self._runner, self._runner.model_id, self._round, None)
            meter.spent["model"] += meter.now() - self._asked_at
            await stream.aclose()  # type: ignore[attr-defined]
        raise ProviderFailure("incomplete", "the stream ended without a reply", provider=provider.name, retryable=True)

    async def _say_text(self, text: str) -> None:
        if self._text is None:
            self._text = await self._begin(AgentMessage)
        await self._say(self._text, text)

    async def _say_reasoning(self, text: str) -> None:
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
        if self._first_token is None:
            self._first_token = runner.meter.token_came()
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
            runner.model = runner.model_id = changed
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
