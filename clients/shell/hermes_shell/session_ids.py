"""Sessions named on the command line: the whole id, or as much of its beginning as is unique."""

from __future__ import annotations

from hermes_local.connection import RpcError
from hermes_local.spawn import EXIT_REFUSED
from hermes_shell.failures import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes_local.connection import Connection

REQUEST_S = 30.0
PAGE = 200


def find(connection: Connection, text: str) -> str:
    """The id of the session that `text` names; Failed where none or more than one begins like that."""
    try:
        found = connection.request("hermes/session/get", {"sessionId": text}, REQUEST_S)
        return str(found["session"]["sessionId"])
    except RpcError as error:
        if error.kind not in ("session_not_found", "invalid_params"):
            raise
    known = [str(row["sessionId"]) for row in all_rows(connection)]
    matches = [session_id for session_id in known if session_id.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise Failed(f"no session {text!r}; `hermes sessions list` shows them", EXIT_REFUSED)
    raise Failed(f"{len(matches)} sessions begin with {text!r}: {', '.join(matches[:5])}", EXIT_REFUSED)


def all_rows(connection: Connection, **params: object) -> list[dict[str, object]]:
    """Every session, page by page, the most recently used first."""
    rows: list[dict[str, object]] = []
    cursor = None
    while True:
        asked = {**params, "limit": PAGE, **({"cursor": cursor} if cursor else {})}
        page = connection.request("hermes/session/list", asked, REQUEST_S)
        rows.extend(page["sessions"])
        cursor = page.get("nextCursor")
        if not cursor:
            return rows
