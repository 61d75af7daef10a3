"""One tool call, from the model's text to the result it reads. Top to bottom like the order it must keep.

parse and coerce -> tool_request -> recheck -> pre_tool_call -> modify and recheck -> approval with the final
arguments -> around tool_execution -> post_tool_call -> post_tool_call_settled -> tool_result -> redact, cap.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hermes_daemon.core.arguments import parse_arguments
from hermes_daemon.core.decision import Verdict, judge
from hermes_daemon.core.facts import ToolReturned
from hermes_daemon.core.ports import Rejected, Tool, ToolOutcome
from hermes_daemon.core.records import PutBlob, PutGrant
from hermes_daemon.core.settings import ApprovalSettings
from hermes_daemon.engine.answers import ALLOWING, Resolution
from hermes_daemon.engine.call_context import MAX_INLINE, CallContext
from hermes_daemon.engine.growing import Growing
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.shown import clip
from hermes_daemon.middleware.styles import ExecutionBlocked, MiddlewareError, around, decide
from hermes_protocol.content import By, ToolCall
from hermes_protocol.events import AnyItem, BlobRef, Output, ToolCallAsk, ToolCallItem

if TYPE_CHECKING:
    from hermes_daemon.engine.runner import Runner

log = logging.getLogger(__name__)

Status = Literal["completed", "failed", "cancelled"]


class Operation(msgspec.Struct, frozen=True):
    """What tool middleware sees and may change: the tool's name and its arguments."""

    call_id: str
    name: str
    args: dict[str, Any]


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
        outcome, status = await work.run(cut)
    except asyncio.CancelledError:
        outcome, status = _refusal("The user interrupted this call. Whether it had any effect is unknown."), "cancelled"
    except Exception as error:  # a tool run: a bug in a tool is the call's failure, not the daemon's
        incident = new_id("incident")
        # What people gave in secret may stand in the exception: then the log has its type only.
        log.error("tool %s failed, incident %s: %s", call.name, incident, type(error).__name__,
                  exc_info=None if work.has_secrets else error)  # fmt: skip
        outcome, status = (
            _refusal(f"The tool failed ({type(error).__name__}: {work.redact(str(error))}; {incident})."),
            "failed",
        )
    runner.finished[call.call_id] = work.completed(outcome, status)
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

    @property
    def has_secrets(self) -> bool:
        """True when people gave it something that nobody else may see."""
        return self._context is not None and bool(self._context.secrets)

    def redact(self, text: str) -> str:
        """The text without secrets."""
        return self._context.redact(text) if self._context is not None else self._parts.redact(text)

    async def run(self, cut: bool) -> tuple[ToolOutcome, Status]:
        """The outcome as the model reads it, and the item's status."""
        try:
            operation, tool = self._parsed(cut)
        except Rejected as rejected:
            await self._begin()
            return _refusal(f"{self._call.name}: {rejected}"), "failed"
        try:
            operation = await self._runner.fold("tool_request", operation)
            operation, tool = self._rechecked(operation, tool)
            blocked, operation = await self._policy(operation)
            operation, tool = self._rechecked(operation, tool)
        except Rejected as rejected:
            await self._begin()
            return _refusal(f"{self._call.name}: {rejected}"), "failed"
        await self._begin(tool, operation)
        refused = blocked or await self._approved(tool, operation)
        outcome = refused or await self._execute(tool, operation)
        await self._runner.observe("post_tool_call", outcome)
        await self._runner.observe("post_tool_call_settled", outcome)
        outcome = self._cleaned(outcome)
        changed = await self._runner.fold("tool_result", outcome)
        if changed is not outcome:
            outcome = self._cleaned(changed)
        return outcome, "failed" if outcome.is_error else "completed"

    # --- what is asked ---

    def _parsed(self, cut: bool) -> tuple[Operation, Tool]:
        tool = self._lookup(self._call.name)
        args = parse_arguments(self._call.arguments, tool.card, cut=cut)
        return Operation(self._call.call_id, self._call.name, args), tool

    def _lookup(self, name: str) -> Tool:
        active = self._runner.active_tools()
        for tool in active:
            if tool.card.name == name:
                return tool
        known = ", ".join(tool.card.name for tool in active) or "none"
        raise Rejected(f"there is no tool {name!r} in this session; there are: {known}", "$.name")

    def _rechecked(self, operation: Operation, tool: Tool) -> tuple[Operation, Tool]:
        """Name and arguments are checked again after every rewrite."""
        if operation.name != tool.card.name:
            tool = self._lookup(operation.name)
        args = parse_arguments(msgspec.json.encode(operation.args).decode(), tool.card, cut=False)
        return msgspec.structs.replace(operation, args=args), tool

    async def _policy(self, operation: Operation) -> tuple[ToolOutcome | None, Operation]:
        links = self._session.middleware.snapshot("pre_tool_call")
        if not links:
            return None, operation
        directive = await decide(links, operation, self._runner, self._runner.report)
        if directive is None:
            return None, operation
        if directive.fields:
            operation = msgspec.structs.replace(operation, args=operation.args | directive.fields)
        blocked = _refusal(f"Blocked by policy: {directive.message}") if directive.action == "block" else None
        return blocked, operation

    async def _begin(self, tool: Tool | None = None, operation: Operation | None = None) -> None:
        if tool is not None and operation is not None:
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

    async def _approved(self, tool: Tool, operation: Operation) -> ToolOutcome | None:
        """None when the call may run, else what the model reads instead."""
        settings = self._parts.settings().approvals
        verdict = self._judged(tool, operation, settings)
        if verdict.kind == "allow":
            return None
        if verdict.kind == "deny":
            return _refusal(f"Refused: {verdict.reason} This will not be run; do not try another way to the same end.")
        await self._runner.observe("pre_approval_request", operation)
        resolution = await self._ask(verdict, settings.timeout, lambda name: self._by_rule(name, tool, operation))
        await self._runner.observe("post_approval_response", resolution)
        await self._grant(verdict, resolution)
        return None if resolution.outcome in ALLOWING else _refusal(_denial(resolution))

    def _judged(self, tool: Tool, operation: Operation, settings: ApprovalSettings) -> Verdict:
        return judge(
            tool.card,
            operation.args,
            settings=settings,
            mode=self._session.row.options.mode or settings.mode,
            grants=frozenset(self._session.grants) | frozenset(self._parts.store.grants()),
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

    async def _ask(self, verdict: Verdict, timeout_s: float, policy: Callable[[str], Resolution]) -> Resolution:
        item = self._item
        ask = ToolCallAsk(item.call_id, item.name, item.title, item.args, risk=verdict.risk)
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
        context = CallContext(self._runner, self._call.call_id, self._growing, self._parts.settings())
        self._context = context
        links = self._session.middleware.snapshot("tool_execution")
        try:
            if not links:
                return await tool.run(operation.args, context)

            async def run(final: Operation) -> ToolOutcome:
                checked, checked_tool = self._rechecked(final, tool)
                return await checked_tool.run(checked.args, context)

            outcome: ToolOutcome = await around(links, operation, self._runner, run, self._runner.report)
            return outcome
        except ExecutionBlocked as veto:
            return _refusal(f"Blocked: {veto}")
        except (MiddlewareError, Rejected) as error:
            return _refusal(str(error))
        finally:
            context.finish()

    def _cleaned(self, outcome: ToolOutcome) -> ToolOutcome:
        redact = self.redact
        shown = redact(outcome.shown) if outcome.shown is not None else None
        changes = tuple(msgspec.structs.replace(change, diff=redact(change.diff)) for change in outcome.changes)
        return msgspec.structs.replace(outcome, text=redact(outcome.text), shown=shown, changes=changes)

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
