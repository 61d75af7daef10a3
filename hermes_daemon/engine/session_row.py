"""What follows from a session's row alone."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from hermes_daemon.core.ports import ModelInfo, Models, Refused
from hermes_daemon.core.records import SessionRow
from hermes_daemon.core.settings import Effort, Settings
from hermes_daemon.engine.feed import LEASE
from hermes_daemon.engine.identity import new_id
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import SessionSummary
from hermes_protocol.methods import SessionOptions

EFFORTS: Final[tuple[str, ...]] = get_args(Effort)


def summary_of(row: SessionRow, model: str) -> SessionSummary:
    """The list row of a session that is not live."""
    return SessionSummary(
        session_id=row.session_id,
        title=row.title,
        cwd=row.cwd,
        model=row.options.model or model,
        state="idle",
        created_at=row.created_at,
        updated_at=row.updated_at,
        rev=row.rev,
        usage=row.usage,
        occupancy_pct=row.occupancy_pct,
        archived=row.archived,
        parent=row.parent,
    )


def forked(parent: SessionRow, title: str | None, now: str) -> SessionRow:
    """The row of a session that goes on from another one: place, options and environment are the same."""
    if title is None:
        title = f"{parent.title} (fork)" if parent.title else ""
    return SessionRow(
        session_id=new_id("s"),
        epoch=new_id("e"),
        cwd=parent.cwd,
        created_at=now,
        updated_at=now,
        title=title.strip(),
        model=parent.model,
        options=parent.options,
        env=parent.env,
        parent=parent.session_id,
        ceiling=LEASE,
    )


def title_of(text: str) -> str:
    """The title of a session that begins with this text: its first line, cut to 60 characters."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 60 else line[:59].rstrip() + "…"


def with_option(options: SessionOptions, id: str, value: Any) -> SessionOptions:
    """The options with one changed; None takes a value away. invalid_params names what was expected."""
    names = dict(zip(SessionOptions.__struct_encode_fields__, SessionOptions.__struct_fields__, strict=True))
    if id not in names:
        raise ProtocolError("invalid_params", f"$.id: expected one of {', '.join(names)}, got {id!r}", path="$.id")
    fields = msgspec.to_builtins(options) | {id: value}
    if value is None:
        fields.pop(id)
    try:
        return msgspec.convert(fields, SessionOptions)
    except msgspec.ValidationError as error:
        raise ProtocolError("invalid_params", f"$.value: {error}", path="$.value") from error


def expect_effort(models: Models, options: SessionOptions, path: str) -> None:
    """invalid_params, naming the words there are, unless the session's model takes the effort of its option."""
    if options.thinking is None:
        return
    if options.thinking not in EFFORTS:
        words = f"{path}: {options.thinking!r} is no reasoning effort; expected one of {', '.join(EFFORTS)}"
        raise ProtocolError("invalid_params", words, path=path)
    try:
        _, model = models.resolve(options.model)
    except Refused:
        return  # which model it will be is not known yet; a turn says so
    if problem := refusal(model, options.thinking):
        raise ProtocolError("invalid_params", f"{path}: {problem}", path=path)


def refusal(model: ModelInfo, effort: str) -> str:
    """Why a model cannot be asked with this reasoning effort; "" when it can, or when nobody knows."""
    if model.efforts is None or effort in model.efforts:
        return ""
    if model.efforts in ((), ("none",)):
        return f"{model.id} does not reason, so it takes no effort {effort}; set thinking to null or none"
    return f"{model.id} takes no reasoning effort {effort}; it takes {', '.join(model.efforts)}"


def expect_policy(unattended: str, settings: Settings, path: str) -> None:
    """invalid_params unless it is a policy for questions nobody can see: wait, deny, or a rule by its name."""
    known = ("wait", "deny", *settings.approvals.unattended)
    if unattended not in known:
        words = f"{path}: expected one of {', '.join(known)} (approvals.unattended), got {unattended!r}"
        raise ProtocolError("invalid_params", words, path=path)
