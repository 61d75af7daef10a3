"""hermes/daemon/*, hermes/schema/get and the methods that list what there is."""

from __future__ import annotations

import base64
from typing import Final

import msgspec

from hermes_daemon.core.ports import Refused, Store
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.fitting import text_blob_of
from hermes_protocol import schema
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import ToolCallItem
from hermes_protocol.methods import (
    BlobReadParams,
    BlobReadResult,
    ConfigGetParams,
    ConfigGetResult,
    LogsParams,
    LogsResult,
    MiddlewareListResult,
    MiddlewareRow,
    ModelsParams,
    ModelsResult,
    ReloadParams,
    ReloadResult,
    SchemaParams,
    SchemaResult,
    ToolListParams,
    ToolListResult,
    ToolRow,
)

LONGEST_CHARACTER: Final = 4


async def logs(connection: Connection, params: LogsParams) -> LogsResult:
    """The last lines of the log."""
    return LogsResult(connection.daemon.engine.read_log(max(1, min(params.lines, 10_000)), params.level))


async def reload(connection: Connection, params: ReloadParams) -> ReloadResult:
    """Read config.yaml again; a broken one changes nothing."""
    if not connection.controller:
        raise ProtocolError("permission_denied", "this client is an observer: it may look, not change")
    if "config" not in params.what:
        return ReloadResult((), ())
    reloaded = connection.daemon.reload()
    return ReloadResult(reloaded.changed, tuple(str(error) for error in reloaded.errors), reloaded.warnings)


async def get_schema(connection: Connection, params: SchemaParams) -> SchemaResult:
    """The protocol describes itself."""
    return SchemaResult(schema.document(params.format, params.experimental), schema.schema_hash())


async def tools(connection: Connection, params: ToolListParams) -> ToolListResult:
    """Every tool, with what keeps it from running."""
    engine = connection.daemon.engine
    disabled = set(engine.parts.settings().tools.disabled)
    toolsets = None
    if params.session_id is not None:
        toolsets = engine.sessions.get(params.session_id).row.options.toolsets
    rows = []
    for tool in engine.parts.tools.all():
        card = tool.card
        off = card.name in disabled or (toolsets is not None and not {card.toolset, card.name} & set(toolsets))
        rows.append(
            ToolRow(
                card.name,
                card.toolset,
                card.description,
                "built in",
                "disabled" if off else "ready",
                card.read_only,
                card.parameters,
            )
        )
    return ToolListResult(tuple(rows))


async def middleware(connection: Connection, params: ToolListParams) -> MiddlewareListResult:
    """Who acts where, in order."""
    engine = connection.daemon.engine
    registry = engine.parts.middleware
    if params.session_id is not None:
        registry = engine.sessions.get(params.session_id).middleware
    from hermes_daemon.middleware.points import POINTS

    rows = registry.rows()
    return MiddlewareListResult(
        tuple(MiddlewareRow(link.point, POINTS[link.point].style, link.owner, order) for order, link in enumerate(rows))
    )


async def models(connection: Connection, params: ModelsParams) -> ModelsResult:
    """The models there are; `probe` asks the endpoints."""
    connection.daemon.engine.freshen()
    catalog = connection.daemon.engine.parts.models
    redact = connection.daemon.engine.parts.redact
    rows = await catalog.rows(params.probe)
    told = tuple(msgspec.structs.replace(row, note=redact(row.note)) if row.note else row for row in rows)
    return ModelsResult(told, catalog.default())


async def config_get(connection: Connection, params: ConfigGetParams) -> ConfigGetResult:
    """A setting and where it comes from."""
    connection.daemon.engine.freshen()
    try:
        value, source = connection.daemon.engine.configuration.get(params.path)
    except Refused as refused:
        raise ProtocolError("invalid_params", f"$.path: {refused}", path="$.path") from refused
    return ConfigGetResult(value, source)


async def blob_read(connection: Connection, params: BlobReadParams) -> BlobReadResult:
    """A page of a big output. Offsets are bytes; utf8 pages end at a code point."""
    # A control character is six bytes of JSON: a page of so many bytes fits into the frame however it is written.
    limit = max(LONGEST_CHARACTER, min(params.limit, (connection.outbox.frame_limit - 1024) // 6))
    offset = max(0, params.offset)
    store = connection.daemon.engine.parts.store
    named = text_blob_of(params.blob_id)
    found = _item_text(store, *named, offset, limit) if named else store.blob(params.blob_id, offset, limit)
    if found is None:
        raise ProtocolError("blob_not_found", f"no blob {params.blob_id}")
    data, total = found
    if params.encoding == "base64":
        end = offset + len(data)
        return BlobReadResult(base64.b64encode(data).decode(), end >= total, total, end)
    text, used = _whole_characters(data)
    end = offset + used
    return BlobReadResult(text, end >= total, total, end)


def _item_text(store: Store, session_id: str, item_id: str, offset: int, limit: int) -> tuple[bytes, int] | None:
    """A page of the whole text of an item that was cut to fit a frame."""
    row = store.item(session_id, item_id)
    item = row.item if row is not None else None
    text = item.output.text if isinstance(item, ToolCallItem) and item.output else getattr(item, "text", None)
    if not isinstance(text, str):
        return None
    data = text.encode("utf-8", "replace")
    return data[offset : offset + limit], len(data)


def _whole_characters(data: bytes) -> tuple[str, int]:
    """As much of `data` as ends at a code point, and how many bytes that is."""
    for cut in range(min(4, len(data) + 1)):
        piece = data[: len(data) - cut]
        try:
            return piece.decode(), len(piece)
        except UnicodeDecodeError as error:
            if error.start < len(piece) - 3:
                break
    return data.decode("utf-8", "replace"), len(data)
