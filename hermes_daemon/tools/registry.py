"""Tools as functions, and the registry that finds them by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from hermes_daemon.core.cards import Kind, card_of
from hermes_daemon.core.ports import Refused, Rejected, Tool, ToolCard, ToolContext, ToolOutcome

ToolFunction: TypeAlias = Callable[..., Awaitable[ToolOutcome]]
Title: TypeAlias = Callable[[Mapping[str, Any]], str]


class FunctionTool:
    """A tool made of `async def tool(ctx: ToolContext, …) -> ToolOutcome`; the card comes from the signature.

    Refused, Rejected and OSError raised by the function become outcomes with is_error; anything else is a bug and
    passes through, as does cancellation.
    """

    def __init__(
        self,
        function: ToolFunction,
        *,
        title: Title,
        toolset: str,
        kind: Kind = "other",
        read_only: bool = False,
        paths: tuple[str, ...] = (),
        name: str | None = None,
    ) -> None:
        self._function, self._title = function, title
        self._card = card_of(function, toolset=toolset, kind=kind, read_only=read_only, paths=paths, name=name)

    @property
    def card(self) -> ToolCard:
        """What a model and a client are told."""
        return self._card

    def title(self, args: Mapping[str, Any]) -> str:
        """One line for people; also for arguments that do not fit the card, as a call is shown before it is checked."""
        try:
            line = self._title(args)
        except (KeyError, TypeError, ValueError, AttributeError):
            line = self._card.name
        line = " ".join(line.split())
        return line if len(line) <= 160 else f"{line[:159]}…"

    async def run(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        """Do it with arguments that fit the card."""
        return _encodable(await self._outcome(args, ctx))

    async def _outcome(self, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        try:
            return await self._function(ctx, **args)
        except Refused as error:
            return ToolOutcome(f"Refused: {error}", is_error=True)
        except Rejected as error:
            return ToolOutcome(f"Error: {error}", is_error=True)
        except OSError as error:
            return ToolOutcome(f"Error: {sentence(error)}", is_error=True)


class Registry:
    """Tools by name, in the order they were given. ValueError for a name that is taken."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.card.name in self._tools:
                raise ValueError(f"two tools are called {tool.card.name!r}")
            self._tools[tool.card.name] = tool

    def all(self) -> Sequence[Tool]:
        """Every tool."""
        return tuple(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)


def _encodable(outcome: ToolOutcome) -> ToolOutcome:
    """Bytes that are no UTF-8 (in file contents, in file names) become the replacement character in what is shown."""

    def replaced(text: str) -> str:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    try:
        for text in (outcome.text, outcome.shown or "", *(change.diff + change.path for change in outcome.changes)):
            text.encode("utf-8")
    except UnicodeEncodeError:
        changes = tuple(
            msgspec.structs.replace(change, diff=replaced(change.diff), path=replaced(change.path))
            for change in outcome.changes
        )
        shown = None if outcome.shown is None else replaced(outcome.shown)
        return msgspec.structs.replace(outcome, text=replaced(outcome.text), shown=shown, changes=changes)
    return outcome


def sentence(error: OSError) -> str:
    """What the system said, with the file it was said of: `No space left on device: /x/y`."""
    words = error.strerror or str(error) or type(error).__name__
    return f"{words}: {str(error.filename)[:1000]}" if error.filename else words
