"""One tool call, from the model's text to the result it reads. Top to bottom like the order it must keep.

parse and coerce -> tool_request -> recheck -> pre_tool_call -> modify and recheck -> approval with the final
arguments -> around tool_execution -> post_tool_call -> post_tool_call_settled -> tool_result -> redact, cap.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from hermes_daemon.core.arguments import parse_arguments
from hermes_daemon.core.decision import Verdict, judge
from hermes_daemon.core.facts import ToolReturned
from hermes_daemon.core.ports import Rejected, Tool, ToolOutcome
from hermes_daemon.core.records import PutBlob, PutGrant
from hermes_daemon.core.settings import ApprovalSettings
from hermes_daemon.core.telemetry import ToolCalled
from hermes_daemon.engine.answers import ALLOWING, Resolution
from hermes_daemon.engine.call_context import MAX_INLINE, CallContext
from hermes_daemon.engine.growing import Growing
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.meter import ms
from hermes_daemon.engine.shown import clip
from hermes_daemon.middleware.directives import Decision
from hermes_daemon.middleware.payloads import Approval, Operation, ToolDone, ToolSettled, ToolStatus
from hermes_daemon.middleware.sanitising import blackened
from hermes_daemon.middleware.styles import ExecutionBlocked, MiddlewareError
from hermes_protocol.content import By, ToolCall
from hermes_protocol.events import AnyItem, BlobRef, Output, PermissionOption, ToolCallAsk, ToolCallItem

if TYPE_CHECKING:
    from hermes_daemon.engine.runner import Runner

log = logging.getLogger(__name__)

Status = Literal["completed", "failed", "cancelled"]
Reason = Literal[
    "unknown_tool", "tool_denied", "invalid_arguments", "permission_denied", "validation_failed", "execution_denied",
    "guardrail_blocked",
]  # fmt: skip


class Blocked(Exception):
    """The call does not run: why, as a word, and as what the model reads."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason, self.text = reason, text


async def run_call(runner: Runner, call: ToolCall, *, cut: bool) -> ToolReturned:
    """Run one call of the model. Never raises but for cancellation before it began; a failure is an answer."""
    session = runner.session
    now = session.parts.clock.now()
    redact = session.parts.redact
    item = ToolCallItem(
        item_id=new_id("item"),
        turn_id=runner.turn_id,
        status="inProgress",
        created_at=now,
        call_id=call.call_id,
        name=call.name,
        title=call.name,
        args=redact(call.arguments),
    )
    work = _Call(runner, call, item)
    try:
        outcome = await work.finished(await work.run(cut))
        status: Status = "failed" if outcome.is_error else "completed"
    except asyncio.CancelledError:
        outcome = _refusal("The user interrupted this call. Whether it had any effect is unknown.")
        await work.told(outcome, "interrupted")
        status = "cancelled"
    except Exception as error:  # a tool run: a bug in a tool is the call's failure, not the daemon's
        incident = new_id("incident")
        # What people gave in secret may stand in the exception: then the log has its type only.
        log.error("tool %s failed, incident %s: %s", call.name, incident, type(error).__name__,
                  exc_info=None if work.has_secrets else error)  # fmt: skip
        words = f"The tool failed ({type(error).__name__}: {work.redact(str(error))}; {incident})."
        try:
            outcome, status = await work.finished(_refusal(words), type(error).__name__), "failed"
        except asyncio.CancelledError:
            outcome, status = _refusal(words), "cancelled"
            await work.told(outcome, "interrupted")
    runner.changed_paths |= dict.fromkeys(change.path for change in outcome.changes)
    runner.finished[call.call_id] = work.completed(outcome, status)
    runner.meter.tool_calls += 1
    if session.parts.telemetry.wanted:
        session.parts.telemetry.emit(work.measured(outcome, status), session.session_id, runner.turn_id)
    return ToolReturned(call.call_id, outcome.text, outcome.is_error)


class _Call:
    """The state of one call on its way."""

    def __init__(self, runner: Runner, call: ToolCall, item: ToolCallItem) -> None:
        self._runner = runner
        self._session = runner.session
        self._parts = runner.session.parts
        self._call = call
        self._item = item
        self._growing: Growing | None = None
        self._context: CallContext | None = None
        self._began: float | None = None
        self._created = runner.meter.now()
        self._ran_s = self._asked_s = 0.0
        self._tool_name = "unknown"
        self._points = runner.passage({"tool_call_id": call.call_id})
        self._operation = Operation(call.call_id, call.name, {})
        self._decision: Decision | None = None
        self._error_type = ""
        self._blocked = self._ran = False
        self._telling: asyncio.Task[None] | None = None

    @property
    def has_secrets(self) -> bool:
        """True when people gave it something that nobody else may see."""
        return self._context is not None and bool(self._context.secrets)

    def redact(self, text: str) -> str:
        """The text without secrets."""
        return self._context.redact(text) if self._context is not None else self._parts.redact(text)

    async def run(self, cut: bool) -> ToolOutcome:
        """The outcome, as the tool or what stopped it gave it."""
        try:
            tool, operation = await self._wanted(cut)
            await self._begin(tool, operation)
            await self._permitted()
            await self._approved(tool, operation)
            return await self._execute(tool, operation)
        except Blocked as no:
            if self._growing is None:
                await self._begin()
            self._blocked, self._error_type = True, no.reason
            return _refusal(no.text)

    async def finished(self, outcome: ToolOutcome, error_type: str = "") -> ToolOutcome:
        """The outcome as the model reads it, when its observers were told of what it was."""
        outcome = self._cleaned(outcome)
        await self.told(outcome, error_type)
        if not self._points.has("tool_result"):
            return outcome
        changed = (await self._points.fold("tool_result", self._done(outcome), _only_result)).outcome
        return outcome if changed is outcome else self._capped(self._cleaned(changed))

    async def told(self, outcome: ToolOutcome, error_type: str = "") -> None:
        """post_tool_call and post_tool_call_settled: once each, also for a call that is cancelled meanwhile."""
        self._error_type = error_type or self._error_type or ("tool_error" if outcome.is_error else "")
        if self._telling is None:
            if not (self._points.has("post_tool_call") or self._points.has("post_tool_call_settled")):
                return
            self._telling = asyncio.ensure_future(self._tell(self._done(outcome)))
        await asyncio.shield(self._telling)

    async def _tell(self, done: ToolDone) -> None:
        await self._points.observe("post_tool_call", lambda: done)
        settled = ToolSettled(done.tool_name, done.tool_call_id, done.status)
        await self._points.observe("post_tool_call_settled", lambda: settled)

    def _done(self, outcome: ToolOutcome) -> ToolDone:
        status: ToolStatus = "blocked" if self._blocked else "error" if outcome.is_error else "ok"
        return ToolDone(
            tool_name=self._operation.name,
            args=blackened(self._operation.args, self.redact),
            result=outcome.text,
            status=status,
            outcome=outcome,
            tool_call_id=self._call.call_id,
            error_type=self._error_type,
            error_message=outcome.text if outcome.is_error else "",
            duration_ms=self._ran_ms,
        )

    # --- what is asked ---

    async def _wanted(self, cut: bool) -> tuple[Tool, Operation]:
        """The tool and the final arguments, through tool_request and pre_tool_call."""
        operation, tool = self._parsed(cut)
        if self._points.has("tool_request"):
            self._points.original = operation
        operation = await self._points.fold("tool_request", operation, _same_call)
        operation, tool = self._rechecked(operation, tool)
        self._decision = await self._points.decide("pre_tool_call", lambda: operation)
        if self._decision is not None and self._decision.fields:
            changed = msgspec.structs.replace(operation, args=operation.args | self._decision.fields)
            operation, tool = self._rechecked(changed, tool)
        return tool, operation

    async def _permitted(self) -> None:
        decision = self._decision
        if decision is not None and decision.action == "block":
            raise Blocked("guardrail_blocked", f"Blocked by policy: {decision.message}")

    def _parsed(self, cut: bool) -> tuple[Operation, Tool]:
        tool = self._lookup(self._call.name)
        try:
            args = parse_arguments(self._call.arguments, tool.card, cut=cut)
        except Rejected as rejected:
            raise self._misfit(rejected) from rejected
        self._operation = Operation(self._call.call_id, self._call.name, args)
        return self._operation, tool

    def _lookup(self, name: str) -> Tool:
        active = self._runner.active_tools()
        for tool in active:
            if tool.card.name == name:
                return tool
        known = ", ".join(tool.card.name for tool in active) or "none"
        there = self._parts.tools.get(name) is not None
        text = f"{name}: $.name: there is no tool {name!r} in this session; there are: {known}"
        raise Blocked("tool_denied" if there else "unknown_tool", text)

    def _rechecked(self, operation: Operation, tool: Tool) -> tuple[Operation, Tool]:
        """Name and arguments are checked again after every rewrite."""
        if operation.name != tool.card.name:
            tool = self._lookup(operation.name)
        try:
            args = parse_arguments(msgspec.json.encode(operation.args).decode(), tool.card, cut=False)
        except Rejected as rejected:
            raise self._misfit(rejected, operation.name) from rejected
        self._operation = msgspec.structs.replace(operation, args=args)
        return self._operation, tool

    def _misfit(self, rejected: Rejected, name: str = "") -> Blocked:
        """What is no object is one thing, an object that does not fit the schema another."""
        reason: Reason = "invalid_arguments" if rejected.path == "$" else "validation_failed"
        return Blocked(reason, f"{name or self._call.name}: {rejected}")

    async def _begin(self, tool: Tool | None = None, operation: Operation | None = None) -> None:
        if tool is not None and operation is not None:
            self._tool_name = tool.card.name
            redact = self._parts.redact
            self._item = msgspec.structs.replace(
                self._item,
                name=operation.name,
                title=redact(tool.title(operation.args)),
                args=redact(msgspec.json.encode(operation.args).decode()),
            )
        self._growing = Growing(self._session.feed, self._runner.turn_id, self._item, "output")
        self._runner.tool_items[self._call.call_id] = self._item
        await self._growing.begin()

    # --- whether it may ---

    async def _approved(self, tool: Tool, operation: Operation) -> None:
        """Return when the call may run. Blocked."""
        settings = self._parts.settings().approvals
        verdict = self._judged(tool, operation, settings)
        if verdict.kind == "deny":
            raise Blocked("permission_denied", f"Refused: {verdict.reason} This will not be run; "
                                               "do not try another way to the same end.")  # fmt: skip
        decision = self._decision
        by_guest = decision is not None and decision.action == "approve"
        if decision is not None and by_guest:
            verdict = self._asked_by_guest(verdict, decision)
        if verdict.kind == "ask":
            policy = _unattended if by_guest else lambda name: self._by_rule(name, tool, operation)
            resolution = await self._consent(tool, operation, verdict, settings.timeout, policy)
            if resolution.outcome not in ALLOWING:
                raise Blocked("permission_denied", _denial(resolution))
        if decision is not None and by_guest:
            await self._revalidated(decision, operation)

    def _asked_by_guest(self, verdict: Verdict, decision: Decision) -> Verdict:
        """People are asked although the rules allow it; a lasting consent covers the guest's own key and no more."""
        grant = f"rule:{decision.owner}:{decision.rule_key}" if decision.rule_key else ""
        if grant and grant in self._grants():
            return verdict
        reason = self._parts.redact(decision.message or f"{decision.owner} wants this to be allowed by you")
        options = (_ALLOW, *(_LASTING if grant and not verdict.risk else ()), _DENY)
        if verdict.kind == "ask":
            reason = f"{reason}; {verdict.reason}"
        return Verdict("ask", reason, verdict.risk, options, grant)

    async def _revalidated(self, decision: Decision, operation: Operation) -> None:
        """Who asked for consent looks at the final arguments once more: anything but True is a no."""
        for check in decision.revalidate:
            args = msgspec.json.decode(msgspec.json.encode(operation.args))
            try:
                answer = await self._session.middleware.workers.run(functools.partial(check, args))
                answer = await answer if inspect.isawaitable(answer) else answer
            except Exception as error:  # a plugin's callback
                answer = error
            if answer is not True:
                log.warning("%s did not confirm %s after consent: %s", decision.owner, operation.name,
                            self.redact(str(answer)))  # fmt: skip
                raise Blocked("guardrail_blocked", f"Blocked by policy: {decision.owner} did not confirm the call")

    async def _consent(self, tool: Tool, operation: Operation, verdict: Verdict, timeout_s: float,
                       policy: Callable[[str], Resolution]) -> Resolution:  # fmt: skip
        told = Approval(
            command=self.redact(str(operation.args.get("command") or tool.title(operation.args))),
            description=verdict.reason,
            pattern_key=verdict.grant,
            tool_call_id=self._call.call_id,
            surface=self._runner.platform,
        )
        await self._points.observe("pre_approval_request", lambda: told)
        asked = self._runner.meter.now()
        try:
            resolution = await self._ask(tool, operation, verdict, timeout_s, policy)
        finally:
            self._waited_for_people(self._runner.meter.now() - asked)
        who = resolution.by.name or resolution.by.client_id if resolution.by is not None else resolution.outcome
        answered = msgspec.structs.replace(told, choice=resolution.outcome, decided_by=who)
        await self._points.observe("post_approval_response", lambda: answered)
        await self._grant(verdict, resolution)
        return resolution

    def _grants(self) -> frozenset[str]:
        return frozenset(self._session.grants) | frozenset(self._parts.store.grants())

    def _judged(self, tool: Tool, operation: Operation, settings: ApprovalSettings) -> Verdict:
        return judge(
            tool.card,
            operation.args,
            settings=settings,
            mode=self._session.row.options.mode or settings.mode,
            grants=self._grants(),
            cwd=self._session.row.cwd,
            home=self._session.row.env.get("HOME") or self._parts.environment.get("HOME", ""),
        )

    def _by_rule(self, name: str, tool: Tool, operation: Operation) -> Resolution:
        """What the policy of that name says while nobody is there: only a rule by name can allow."""
        settings = self._parts.settings().approvals
        more = (*settings.allow, *settings.unattended.get(name, ()))
        if self._judged(tool, operation, msgspec.structs.replace(settings, allow=more)).kind == "allow":
            return Resolution("allow_once", By("", f"the rule {name}", "policy"))
        return Resolution("policy")

    async def _ask(self, tool: Tool, operation: Operation, verdict: Verdict, timeout_s: float,
                   policy: Callable[[str], Resolution]) -> Resolution:  # fmt: skip
        item, redact = self._item, self._parts.redact
        args = redact(msgspec.json.encode(operation.args).decode())
        ask = ToolCallAsk(item.call_id, operation.name, redact(tool.title(operation.args)), args, risk=verdict.risk)
        return await self._session.questions.ask(
            "permission",
            turn_id=self._runner.turn_id,
            item_id=item.item_id,
            timeout_s=timeout_s,
            policy=policy,
            tool_call=ask,
            options=verdict.options,
            reason=verdict.reason,
        )

    async def _grant(self, verdict: Verdict, resolution: Resolution) -> None:
        if resolution.outcome == "allow_session":
            self._session.grants.add(verdict.grant)
        elif resolution.outcome == "allow_always":
            await self._parts.store.write(PutGrant(grant=verdict.grant), patience=None)

    # --- doing it ---

    async def _execute(self, tool: Tool, operation: Operation) -> ToolOutcome:
        assert self._growing is not None
        self._began = self._parts.clock.monotonic()
        context = CallContext(self._runner, self._call.call_id, self._growing, self._parts.settings(), self._points)
        self._context = context
        try:
            if not self._points.has("tool_execution"):
                return await self._timed(tool, operation.args, context)

            async def run(final: Operation) -> ToolOutcome:
                checked, checked_tool = self._rechecked(_same_call(operation, final), tool)
                if checked != operation:  # consent was for other arguments
                    await self._approved(checked_tool, checked)
                return await self._timed(checked_tool, checked.args, context)

            began, asked = self._runner.meter.now(), self._asked_s
            try:
                outcome = await self._points.around("tool_execution", operation, run)
            finally:
                self._runner.meter.wrapped(began, self._ran_s + self._asked_s - asked)
            if not isinstance(outcome, ToolOutcome):
                raise MiddlewareError(f"tool_execution: expected a ToolOutcome, got {type(outcome).__name__}")
            return outcome
        except ExecutionBlocked as veto:
            raise Blocked("execution_denied", f"Blocked: {veto}") from veto
        except (MiddlewareError, Rejected) as error:
            return _refusal(str(error))
        finally:
            context.finish()

    async def _timed(self, tool: Tool, args: dict[str, Any], context: CallContext) -> ToolOutcome:
        meter = self._runner.meter
        began, waited = meter.tool_began(), context.waited
        self._ran = True
        try:
            return await tool.run(args, context)
        finally:
            meter.tool_ended()
            waited = context.waited - waited  # the tool itself may ask people
            self._waited_for_people(waited)
            self._ran_s += max(0.0, meter.now() - began - waited)

    def _waited_for_people(self, seconds: float) -> None:
        self._asked_s += seconds
        self._runner.meter.spent["approval"] += seconds

    @property
    def _ran_ms(self) -> int | None:
        """Milliseconds inside the tool, None when it did not run."""
        return round(self._ran_s * 1000) if self._ran else None

    def _capped(self, outcome: ToolOutcome) -> ToolOutcome:
        """What middleware made of a result, within what a model is given of one."""
        limit = self._parts.settings().tool_output.max_bytes
        if len(outcome.text) <= limit:
            return outcome
        head, tail = clip(outcome.text, limit)
        text = f"{head}\n[… {len(outcome.text) - limit} characters left out …]\n{tail}"
        return msgspec.structs.replace(outcome, text=text, shown=outcome.shown or outcome.text)

    def _cleaned(self, outcome: ToolOutcome) -> ToolOutcome:
        redact = self.redact
        shown = redact(outcome.shown) if outcome.shown is not None else None
        changes = tuple(msgspec.structs.replace(change, diff=redact(change.diff)) for change in outcome.changes)
        return msgspec.structs.replace(outcome, text=redact(outcome.text), shown=shown, changes=changes)

    def measured(self, outcome: ToolOutcome, status: Status) -> ToolCalled:
        """What it took. The name is that of a tool there is: the model may have written anything in its place."""
        return ToolCalled(
            tool=self._tool_name,
            call_id=self._call.call_id,
            outcome=status,
            failed=outcome.is_error,
            duration_ms=ms(self._ran_s),
            approval_ms=ms(self._asked_s),
            total_ms=ms(self._runner.meter.now() - self._created),
            output_bytes=len(outcome.text.encode("utf-8", "replace")),
        )

    # --- what clients see of it ---

    def completed(self, outcome: ToolOutcome, status: Status) -> tuple[AnyItem, ...]:
        """The finished item, and one item for each file that changed."""
        now = self._parts.clock.now()
        waited = self._context.waited if self._context is not None else 0.0  # for people: not the tool's time
        ran = None if self._began is None else int((self._parts.clock.monotonic() - self._began - waited) * 1000)
        text = outcome.text if outcome.shown is None else outcome.shown
        item = msgspec.structs.replace(
            self._item,
            status=status,
            completed_at=now,
            output=self._output(text),
            exit_code=outcome.exit_code,
            error=outcome.text if outcome.is_error else None,
            duration_ms=ran,
        )
        changes = (
            msgspec.structs.replace(change, item_id=new_id("item"), turn_id=self._runner.turn_id, status="completed",
                                    created_at=now, completed_at=now)
            for change in outcome.changes
        )  # fmt: skip
        return (item, *changes)

    def _output(self, text: str) -> Output:
        data = text.encode("utf-8", "replace")
        if len(data) <= MAX_INLINE:
            return Output(text=text)
        head, tail = clip(text, MAX_INLINE // 4)
        session_id, limit = self._session.session_id, self._parts.settings().database.session_blob_bytes
        if self._parts.store.blob_bytes(session_id) + len(data) > limit:
            said = f"\n[{len(data):,} bytes; the middle was not kept: the session's blobs are over {limit:,} bytes]\n"
            return Output(head=head + said, tail=tail)
        blob = BlobRef(new_id("blob"), len(data), text.count("\n") + 1, hashlib.sha256(data).hexdigest())
        put = PutBlob(blob_id=blob.id, session_id=session_id, data=data, at=self._parts.clock.now())
        self._runner.keep(put)
        return Output(head=head, tail=tail, blob=blob)


_ALLOW: Final = PermissionOption("allow_once", "allow_once", "Allow once")
_DENY: Final = PermissionOption("deny", "deny", "Deny")
_LASTING: Final = (
    PermissionOption("allow_session", "allow_session", "Do not ask for this again in this session"),
    PermissionOption("allow_always", "allow_always", "Never ask for this again"),
)


def _unattended(_: str) -> Resolution:
    """A guest wants people: no rule of the configuration speaks for them."""
    return Resolution("policy")


def _same_call(before: Operation, after: Operation) -> Operation:
    """A link may give the call another tool and other arguments; it stays this call."""
    if not isinstance(after.args, dict):
        raise TypeError(f"args: expected an object, got {type(after.args).__name__}")
    return msgspec.structs.replace(after, call_id=before.call_id)


def _only_result(before: ToolDone, after: ToolDone) -> ToolDone:
    """A link may change the result, by its text or whole. Whoever changes the text changes what people see, too."""
    if after.result != before.result:
        outcome = msgspec.structs.replace(before.outcome, text=after.result, shown=None)
    elif after.outcome != before.outcome:
        outcome = after.outcome
    else:
        return before
    return msgspec.structs.replace(before, result=outcome.text, outcome=outcome)


def _refusal(text: str) -> ToolOutcome:
    return ToolOutcome(text, is_error=True)


def _denial(resolution: Resolution) -> str:
    """What the model reads: who said no, or that nobody said anything, and what it must not do now."""
    forbidden = "Do not run it another way; go on without it or say what you need."
    match resolution.outcome:
        case "timeout":
            return f"Nobody answered the permission request in time. That is not a yes. {forbidden}"
        case "policy":
            return f"Nobody is there who could allow this, so it was not run. {forbidden}"
        case "interrupted":
            return "The turn was interrupted while the permission was open; the call was not run."
    feedback = f" They said: {_sentence(resolution.feedback)}" if resolution.feedback else ""
    return f"The user denied this call.{feedback} {forbidden}"


def _sentence(words: str) -> str:
    """The words of a person with an end, so that what follows is not read as theirs."""
    said = words.strip()
    return said if said.endswith((".", "!", "?", "…")) else f"{said}."
