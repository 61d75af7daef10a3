"""Times as people read them in a table."""

from __future__ import annotations

import datetime


def ago(stamp: str, now: datetime.datetime | None = None) -> str:
    """How long ago an RFC 3339 time was: `now`, `5 min`, `3 h`, `2 d`, then the date. Unreadable: as it stands."""
    try:
        then = datetime.datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    if then.tzinfo is None:
        then = then.replace(tzinfo=datetime.UTC)
    seconds = ((now or datetime.datetime.now(datetime.UTC)) - then).total_seconds()
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{int(seconds // 60)} min"
    if seconds < 86_400:
        return f"{int(seconds // 3600)} h"
    if seconds < 7 * 86_400:
        return f"{int(seconds // 86_400)} d"
    return then.date().isoformat()
