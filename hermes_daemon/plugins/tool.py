"""A plugin's function as a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hermes_daemon.core.ports import Refused, Rejected, ToolCard, ToolContext, ToolOutcome
from hermes_daemon.middleware.workers import Workers


class PluginTool:
    """A tool whose handler is `handler(args, **context)`: sync or async, giving text, a JSON value or a ToolOutcome.

    `check` says why the tool cannot be used now, "" when it can; a tool that cannot is not shown to models.
    """

    def __init__(
        self,
        card: ToolCard,
        handler: Callable[..., Any],
        owner: str,
        workers: Workers,
        check: Callable[[], object] | None = None,
        title: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        self.owner = owner
        self._card, self._handler, self._workers, self._check, self._title = card, handler, workers, check, title
        parameters = inspect.signature(handler).parameters
        self._takes_context = len(parameters) > 1 or any(
            each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()
        )
        self._wants = tuple(parameters)[1:]

    @property
    def card(self) -> ToolCard:
        """What a model and a client are told."""
        return self._card

    @property
    def unavailable(self) -> str:
        """Why it cannot be used now, "" when it can."""
        if self._check is None:
            return ""
        try:
            answer = self._check()
        except Exception as error:  # a plugin's callback
            return f"its check failed: {error}"
        if isinstance(answer, str):
            return answer
        return "" if answer or answer is None else "its check says that it cannot be used now"

    def title(self, args: Mapping[str, Any]) -> str:
        """One line for people."""
        if self._title is None:
            return self._card.name
        try:
            return " ".join(str(self._title(args)).split())[:160]
        except Exception:  # a plugin's callback
            return self._card.name

    async def run(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        """Call the handler. What it raises is the call's failure, in its own words."""
        try:
            value = await self._called(args, ctx)
        except (Refused, Rejected) as error:
            return ToolOutcome(f"Refused: {error}", is_error=True)
        except Exception as error:  # a plugin's code: its failure is the call's
            return ToolOutcome(f"{self.owner}: {type(error).__name__}: {error}", is_error=True)
        if isinstance(value, ToolOutcome):
            return value
        if isinstance(value, str):
            return ToolOutcome(value)
        return ToolOutcome(msgspec.json.encode(value, enc_hook=repr).decode())

    async def _called(self, args: dict[str, Any], ctx: ToolContext) -> Any:
        given: dict[str, Any] = {"ctx": ctx, "session_id": ctx.session_id, "turn_id": ctx.turn_id,
                                 "tool_call_id": ctx.call_id, "cwd": ctx.cwd}  # fmt: skip
        if not self._takes_context:
            given = {}
        elif not _takes_any(self._handler):
            given = {name: given[name] for name in self._wants if name in given}
        if inspect.iscoroutinefunction(self._handler):
            return await self._handler(args, **given)
        value = await self._workers.run(lambda: self._handler(args, **given))
        return await value if inspect.isawaitable(value) else value


def _takes_any(call: Callable[..., Any]) -> bool:
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in inspect.signature(call).parameters.values())
