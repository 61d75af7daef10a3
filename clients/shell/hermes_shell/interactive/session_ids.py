"""Sessions named by people: the whole id, or as much of its beginning as is unique."""

from __future__ import annotations

from hermes_client import Connection
from hermes_protocol import methods as m
from hermes_protocol.errors import ProtocolError

PAGE = 200


async def find(connection: Connection, text: str) -> str:
    """The id that `text` names. ProtocolError `session_not_found` where none, or more than one, begins like that."""
    try:
        got = await connection.request("hermes/session/get", m.SessionParams(text), m.GetResult, resend=True)
        return got.session.session_id
    except ProtocolError as refused:
        if refused.kind not in ("session_not_found", "invalid_params"):
            raise
    matches = [known for known in await _all_ids(connection) if known.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ProtocolError(
            "session_not_found", f"{len(matches)} sessions begin with {text!r}: {', '.join(matches[:5])}"
        )
    raise ProtocolError("session_not_found", f"no session {text!r}; `hermes sessions list` shows them")


async def _all_ids(connection: Connection) -> list[str]:
    ids: list[str] = []
    cursor: str | None = None
    while True:
        params = m.ListParams(cursor, PAGE)
        page = await connection.request("hermes/session/list", params, m.ListResult, resend=True)
        ids.extend(row.session_id for row in page.sessions)
        cursor = page.next_cursor
        if cursor is None:
            return ids
