"""The reference page of middleware points, made from their one table."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from hermes_daemon.core.ports import Request
from hermes_daemon.core.prompt import Prompt
from hermes_daemon.middleware.payloads import PointContext
from hermes_daemon.middleware.points import POINTS, Point

HEAD = """\
<!-- Generated from hermes_daemon/middleware/points.py and payloads.py by `make gen`. Change those. -->
# Middleware points: reference

Every place where middleware may act, in the order of the table in `hermes_daemon/middleware/points.py`. How to use
them: [howto/middleware.md](../howto/middleware.md).

A *transform* gives the payload back changed, or nothing for no change. An *around* link calls what it is given to go
on, once. A *decide* link gives a directive or nothing. An *observe* link is told and gives nothing. When a link fails:
`event` tells it and goes on with the last good value, `closed` treats it as a refusal; a registration may ask for
`throw`, which ends the run.

| point | style | how often | also known as | when a link fails | seconds |
|---|---|---|---|---|---|
"""

CONTEXT = """
## Where the work is

Plain links get it as their last argument; hooks get its fields among their keywords.
"""

PAYLOADS = """
## Payloads

Hooks get the fields as keywords, but for those in italics, which are for plain links.
"""


def page() -> str:
    """The whole page as Markdown."""
    lines = [HEAD.rstrip("\n")]
    lines += [_row(point) for point in POINTS.values()]
    lines += ["", "## When", ""]
    lines += [f"- **{point.name}** ({_payload(point.payload)}): {point.summary}" for point in POINTS.values()]
    lines += [CONTEXT, *_fields(PointContext), PAYLOADS.rstrip("\n")]
    structs = dict.fromkeys(point.payload for point in POINTS.values() if _is_struct(point.payload))
    for struct in structs:
        lines += ["", f"### {struct.__name__}", "", _doc(struct), "", *_fields(struct)]
    return "\n".join(lines) + "\n"


def _row(point: Point) -> str:
    aliases = ", ".join(f"`{alias}`" for alias in point.aliases)
    seconds = f"{point.timeout_s:g}" if point.timeout_s else ""
    return f"| `{point.name}` | {point.style} | {point.scope} | {aliases} | {point.on_error} | {seconds} |"


def _payload(kind: Any) -> str:
    if _is_struct(kind):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    if kind is str:
        return "a text"
    if kind is Any:
        return "of the compaction in use"
    return f"`{_type(kind)}`"


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _doc(struct: type[msgspec.Struct]) -> str:
    return " ".join((inspect.getdoc(struct) or "").split())


def _fields(struct: type[msgspec.Struct]) -> list[str]:
    hidden = getattr(struct, "HIDDEN", frozenset())
    lines = ["| field | type |", "|---|---|"]
    for field in msgspec.structs.fields(struct):
        name = f"*{field.name}*" if field.name in hidden and struct not in (Request, Prompt) else f"`{field.name}`"
        lines.append(f"| {name} | `{_type(field.type)}` |")
    return lines


def _type(kind: Any) -> str:
    text = kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text).replace("|", "or").replace("NoneType", "None")
