"""All sessions of a daemon as they are now: the rows of `hermes watch`, kept up to date by events."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Callable, Sequence

import msgspec

from hermes_client import Connection, Disconnected, Session
from hermes_protocol import methods as m
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import Event, RequestOpened, SessionDeleted, SessionSummary, ToolCallItem
from hermes_shell.interactive.status import shortened
from hermes_shell.table import aligned, plain

HEADER = ("", "SESSION", "STATE", "TURN", "MODEL", "TOKENS", "FULL", "HERE", "TITLE", "NOW")
PAGE = 200
IDLE = "idle"

_decode_event = msgspec.json.Decoder(Event).decode
_decode_changed = msgspec.json.Decoder(m.SessionChangedParams).decode
_decode_state = msgspec.json.Decoder(m.DaemonStateParams).decode


class Row(msgspec.Struct, rename="camel", frozen=True):
    """One session. `clients` leaves this program out; `turn_seconds` and `tool` are of the running turn."""

    session_id: str
    title: str
    cwd: str
    state: str
    model: str
    input_tokens: int
    output_tokens: int
    cost: float | None
    occupancy_pct: float | None
    clients: int
    open_requests: int
    updated_at: str
    turn_seconds: float | None = None
    tool: str = ""
    question: str = ""


class Overview:
    """Made on a connection that asked for `events.sessions`. `changed()` is called whenever a row may look otherwise.

    Sessions in which something happens are followed, for their turn, tool and questions; idle ones are not.
    """

    def __init__(self, connection: Connection, changed: Callable[[], None]) -> None:
        self.notice = ""
        self._connection = connection
        self._changed = changed
        self._summaries: dict[str, SessionSummary] = {}
        self._followed: dict[str, Session] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._boot_id = connection.welcome.boot_id if connection.welcome else ""
        self._unhook = [connection.on_note(self._note), connection.on_state(self._state)]

    async def load(self) -> None:
        """Read the list, and follow what runs; returns when all of it is known."""
        await self._list()
        await asyncio.gather(*self._following.values())

    async def close(self) -> None:
        """Follow nothing any more."""
        for stop in self._unhook:
            stop()
        for task in self._following.values():
            task.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)

    def rows(self, now: datetime.datetime | None = None) -> list[Row]:
        """Questions first, then what runs, then the others by their last use."""
        at = now or datetime.datetime.now(datetime.UTC)
        rows = [self._row(summary, at) for summary in self._summaries.values() if not summary.archived]
        rows.sort(key=lambda row: row.updated_at, reverse=True)
        return sorted(rows, key=lambda row: (not row.open_requests, row.state == IDLE))

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        found: dict[str, SessionSummary] = {}
        cursor: str | None = None
        while True:
            params = m.ListParams(cursor, PAGE)
            page = await self._connection.request("hermes/session/list", params, m.ListResult, resend=True)
            found.update({row.session_id: row for row in page.sessions})
            cursor = page.next_cursor
            if cursor is None:
                break
        self._summaries = found
        for summary in found.values():
            self._look(summary)
        self._changed()

    def _look(self, summary: SessionSummary) -> None:
        session_id = summary.session_id
        self._summaries[session_id] = summary
        busy = summary.state != IDLE or summary.open_requests > 0
        if busy and session_id not in self._followed and session_id not in self._following:
            task = asyncio.get_running_loop().create_task(self._follow(session_id))
            self._following[session_id] = task
            task.add_done_callback(lambda _: self._following.pop(session_id, None))
        elif not busy and session_id in self._followed:
            session = self._followed.pop(session_id)
            task = asyncio.get_running_loop().create_task(self._leave(session))
            self._following[f"leaving {session_id}"] = task
            task.add_done_callback(lambda _: self._following.pop(f"leaving {session_id}", None))

    async def _follow(self, session_id: str) -> None:
        # Deleted meanwhile, or the daemon is gone: the next list says what there is.
        with contextlib.suppress(ProtocolError, Disconnected):
            session = await Session.open(self._connection, session_id, tail=1, detail="final")
            self._followed[session_id] = session
            self._changed()

    async def _leave(self, session: Session) -> None:
        await session.close()
        self._changed()

    def _note(self, method: str, params: msgspec.Raw) -> None:
        if method == "hermes/event":
            self._event(_decode_event(params))
        elif method == "hermes/session/changed":
            changed = _decode_changed(params)
            if changed.deleted:
                self._forget(changed.session_id)
            else:
                self._look(changed.summary)
        elif method == "hermes/daemon/state":
            told = _decode_state(params)
            self.notice = "" if told.state == "ready" else f"the daemon is {told.state} {told.reason}".rstrip()
        self._changed()

    def _event(self, event: Event) -> None:
        if event.kind == SessionDeleted.KIND:
            self._forget(event.session_id)

    def _forget(self, session_id: str) -> None:
        self._followed.pop(session_id, None)
        self._summaries.pop(session_id, None)

    def _state(self, state: str, reason: str) -> None:
        if state == "lost":
            self.notice = f"the daemon is away ({reason}); connecting again"
        elif state == "closed":
            self.notice = f"the connection is closed: {reason}"
        elif self._connection.welcome is not None:
            restarted = self._connection.welcome.boot_id != self._boot_id
            self._boot_id = self._connection.welcome.boot_id
            what = "the daemon was restarted" if restarted else "connected again"
            self.notice = f"{what} at {datetime.datetime.now().astimezone():%H:%M:%S}"
            task = asyncio.get_running_loop().create_task(self._list_again())
            self._following["list"] = task
            task.add_done_callback(lambda _: self._following.pop("list", None))
        self._changed()

    async def _list_again(self) -> None:
        with contextlib.suppress(ProtocolError, Disconnected):  # lost again: the next connection lists again
            await self._list()

    def _row(self, summary: SessionSummary, now: datetime.datetime) -> Row:
        session = self._followed.get(summary.session_id)
        view = session.view if session is not None else None
        turn = view.turn if view is not None else None
        usage = summary.usage
        requests = view.requests if view is not None else ()
        open_calls = [item for item in view.items if item.item_id in view.streaming] if view is not None else []
        tool = next((item for item in reversed(open_calls) if isinstance(item, ToolCallItem)), None)
        return Row(
            session_id=summary.session_id,
            title=summary.title,
            cwd=summary.cwd,
            state=view.state if view is not None else summary.state,
            model=summary.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost=usage.cost,
            occupancy_pct=summary.occupancy_pct,
            clients=max(0, summary.clients - (session is not None)),
            open_requests=len(requests) if view is not None else summary.open_requests,
            updated_at=summary.updated_at,
            turn_seconds=None if turn is None else max(0.0, (now - _moment(turn.started_at, now)).total_seconds()),
            tool=tool.title or tool.name if tool is not None else "",
            question=asked(requests[0]) if requests else "",
        )


def asked(row: RequestOpened) -> str:
    """A question in a few words."""
    if row.tool_call is not None:
        return f"allow {row.tool_call.title or row.tool_call.name}"
    return " / ".join(question.text for question in row.questions) or row.prompt or row.name or row.kind


def lines(rows: Sequence[Row], columns: int | None) -> list[str]:
    """The rows as an aligned table with its header, each line cut to `columns` (None = not at all)."""
    return aligned(HEADER, [_cells(row) for row in rows], columns)


def _cells(row: Row) -> tuple[str, ...]:
    now = f"? {row.question or 'a question is open'}" if row.open_requests else row.tool
    return (
        "?" if row.open_requests else ">" if row.state != IDLE else "",
        row.session_id,
        row.state,
        "" if row.turn_seconds is None else spent(row.turn_seconds),
        shortened(row.model, 28),
        amount(row.input_tokens + row.output_tokens),
        "" if row.occupancy_pct is None else f"{row.occupancy_pct:.0f} %",
        str(row.clients or ""),
        plain(row.title)[:30],
        now,
    )


def amount(tokens: int) -> str:
    """`950`, `12.3k`, `4.5M`."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 999_950 else f"{tokens / 1_000_000:.1f}M"


def spent(seconds: float) -> str:
    """`7 s`, `3:05`, `1:02:03`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def _moment(stamp: str, otherwise: datetime.datetime) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(stamp)
    except ValueError:
        return otherwise
