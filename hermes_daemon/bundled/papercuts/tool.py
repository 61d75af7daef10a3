"""The tool `papercuts`: one object with a `mode`, JSON as the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hermes_daemon.api import ToolOutcome

from . import drafts
from .backlog import UnknownPapercut
from .cut import SEVERITIES, BadReport, by_impact, by_recency, parsed
from .filing import Filing, Tally, shown, statistics

MODES: Final = ("report", "list", "stats", "ack", "resolve", "drafts", "friction")
MOST_SHOWN: Final = 200
LISTED: Final = {
    "": ("open", "acked"), "open": ("open",), "acked": ("acked",), "resolved": ("resolved",),
    "all": ("open", "acked", "resolved"),
}  # fmt: skip
_TEXT: Final = {"type": "string"}
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "mode": {"type": "string", "enum": list(MODES)},
        "category": {
            "type": "string",
            "enum": ["tool", "workflow", "documentation", "environment", "performance", "other"],
        },
        "severity": {"type": "string", "enum": list(SEVERITIES)},
        "expected": {**_TEXT, "description": "report: what should have happened"},
        "observed": {**_TEXT, "description": "report: what happened instead"},
        "version": {**_TEXT, "description": "report: of the program it is about"},
        "invocation": {**_TEXT, "description": "report: the exact command or call"},
        "result": {**_TEXT, "description": "report: what it gave"},
        "reproduction": {**_TEXT, "description": "report: how to see it again"},
        "refs": {"type": "array", "items": _TEXT, "description": "report: files, URLs, ids"},
        "time_lost_seconds": {"type": "number", "minimum": 0, "description": "report: only if it was observed"},
        "sort": {"type": "string", "enum": ["recent", "impact"], "description": "list: recent unless given"},
        "status": {
            "type": "string",
            "enum": ["open", "acked", "resolved", "all"],
            "description": "list: open and acked unless given",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_SHOWN, "description": "list: 20 unless given"},
        "id": {**_TEXT, "description": "ack, resolve: the papercut"},
    },
    "required": ["mode"],
    "additionalProperties": False,
}
DESCRIPTION: Final = (
    "Small annoyances of this work: report one (category, severity, expected, observed; the same one again is counted, "
    "not repeated), list or count them, ack or resolve one by id, propose rules for those that keep coming (drafts), "
    "or see what gates reported (friction). Nothing leaves this machine."
)


class BadArguments(Exception):
    """The arguments do not fit the mode."""


class PapercutsTool:
    """`draft_folder` is "" while draft rules are off."""

    def __init__(
        self, filing: Filing, tally: Tally, *, draft_folder: str, draft_after: int, switches: Mapping[str, bool]
    ) -> None:
        self._filing, self._tally = filing, tally
        self._draft_folder, self._draft_after = draft_folder, draft_after
        self._switches = dict(switches)

    async def run(self, args: dict[str, Any]) -> ToolOutcome:
        """Run one mode. A failure is JSON with `error`, a word, and `message`."""
        try:
            answer = await self.answer(args)
        except UnknownPapercut as error:
            return _failed("unknown_id", f"{error}; mode list shows the ids", id=error.id)
        except BadReport as error:
            return _failed("invalid_report", str(error))
        except BadArguments as error:
            return _failed("invalid_arguments", str(error))
        return ToolOutcome(msgspec.json.encode(answer).decode())

    async def answer(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """What a mode gives. BadArguments, BadReport, UnknownPapercut."""
        given = dict(args)
        mode = given.pop("mode", None)
        if mode == "report":
            return await self._report(given)
        if mode == "list":
            return await self._list(given)
        if mode in ("ack", "resolve"):
            return await self._mark(mode, given)
        if given:
            raise BadArguments(f"mode {mode} takes no {', '.join(sorted(given))}")
        if mode == "stats":
            return {**statistics(await self._filing.all()), "quota": await self._filing.spent()}
        if mode == "drafts":
            return await self.write_drafts()
        if mode == "friction":
            return {"outcomes": self._tally.table(), **self._switches, "quota": await self._filing.spent()}
        raise BadArguments(f"$.mode: expected one of {', '.join(MODES)}, got {mode!r}")

    async def write_drafts(self) -> dict[str, Any]:
        """Propose rules for what is due."""
        if not self._draft_folder:
            return {"status": "disabled", "hint": "set plugins.entries.papercuts.settings.draft_rules to true"}
        cuts = await self._filing.all()
        return await asyncio.to_thread(drafts.write, self._draft_folder, cuts, self._draft_after)

    async def _report(self, given: dict[str, Any]) -> dict[str, Any]:
        cut = await self._filing.report(parsed(given))
        return {"id": cut.id, "status": cut.status, "recurrence": cut.recurrence, "new": cut.recurrence == 1}

    async def _list(self, given: dict[str, Any]) -> dict[str, Any]:
        sort, status, limit = given.pop("sort", "recent"), given.pop("status", ""), given.pop("limit", 20)
        if given:
            raise BadArguments(f"mode list takes no {', '.join(sorted(given))}")
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_SHOWN:
            raise BadArguments(f"$.limit: expected a whole number from 1 to {MOST_SHOWN}, got {limit!r}")
        if sort not in ("recent", "impact"):
            raise BadArguments(f"$.sort: expected recent or impact, got {sort!r}")
        if status not in LISTED:
            raise BadArguments(f"$.status: expected one of open, acked, resolved, all, got {status!r}")
        cuts = [cut for cut in await self._filing.all() if cut.status in LISTED[status]]
        ordered = by_impact(cuts) if sort == "impact" else by_recency(cuts)
        return {"total": len(cuts), "sort": sort, "papercuts": [shown(cut) for cut in ordered[:limit]]}

    async def _mark(self, mode: str, given: dict[str, Any]) -> dict[str, Any]:
        id = given.pop("id", None)
        if given or not isinstance(id, str):
            raise BadArguments(f"mode {mode} takes id, the papercut's, and nothing else")
        cut, changed = await self._filing.mark(id, "acked" if mode == "ack" else "resolved")
        return {"id": cut.id, "status": cut.status, "changed": changed}


def title(args: Mapping[str, Any]) -> str:
    """One line for people."""
    mode = str(args.get("mode", ""))
    return f"papercuts {mode} {args.get('observed') or args.get('id') or ''}".strip()


def _failed(error: str, message: str, **more: Any) -> ToolOutcome:
    return ToolOutcome(msgspec.json.encode({"error": error, "message": message, **more}).decode(), is_error=True)
