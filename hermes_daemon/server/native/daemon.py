"""hermes/daemon/*, hermes/schema/get and the methods that list what there is."""

from __future__ import annotations

import base64
from typing import Final

from hermes_daemon.core.ports import Refused, Store
from hermes_daemon.engine.client_tools import RemoteTool
from hermes_daemon.engine.mailbox import PATIENCE, digest, receipt_op, repeat
from hermes_daemon.server import metrics
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.fitting import text_blob_of
from hermes_daemon.server.native.sessions import writable
from hermes_protocol import schema
from hermes_protocol.errors import ProtocolError
from hermes_protocol.events import ToolCallItem
from hermes_protocol.methods import (
    BlobCreateParams,
    BlobCreateResult,
    BlobReadParams,
    BlobReadResult,
    ConfigGetParams,
    ConfigGetResult,
    ConfigSetParams,
    ConfigSetResult,
    Empty,
    LogsParams,
    LogsResult,
    MetricsResult,
    MiddlewareListResult,
    MiddlewareRow,
    ReloadParams,
    ReloadResult,
    SchemaParams,
    SchemaResult,
    ToolListParams,
    ToolListResult,
    ToolRow,
)

LONGEST_CHARACTER: Final = 4
CONFIG_SET: Final = "hermes/config/set"


_FIXED: Final = {
    "tools": "tools: they are built in and follow the configuration; there was nothing to read again",
}


async def logs(connection: Connection, params: LogsParams) -> LogsResult:
    """The last lines of the log."""
    return LogsResult(connection.daemon.engine.read_log(max(1, min(params.lines, 10_000)), params.level))


async def reload(connection: Connection, params: ReloadParams) -> ReloadResult:
    """Read again what is named: a broken config.yaml changes nothing. `warnings` says what has no effect."""
    if not connection.controller:
        raise ProtocolError("permission_denied", "this client is an observer: it may look, not change")
    notes = tuple(_FIXED[what] for what in params.what if what in _FIXED)
    engine = connection.daemon.engine
    changed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    if "config" in params.what:
        reloaded = connection.daemon.reload()
        changed, errors = reloaded.changed, tuple(map(str, reloaded.errors))
        notes = (*reloaded.warnings, *notes)
    if "plugins" in params.what:
        loaded = await engine.guests.reload(params.plugins)
        changed = (*changed, *(f"plugin {id}" for id in loaded))
        errors = (*errors, *engine.guests.problems)
    if not params.what:
        notes = ("what: nothing was named, so nothing was read again",)
    return ReloadResult(changed, errors, notes)


async def get_metrics(connection: Connection, params: Empty) -> MetricsResult:
    """What /metrics answers, for those who have no HTTP."""
    return MetricsResult(metrics.render(connection.daemon), metrics.CONTENT_TYPE)


async def get_schema(connection: Connection, params: SchemaParams) -> SchemaResult:
    """The protocol describes itself."""
    return SchemaResult(schema.document(params.format, params.experimental), schema.schema_hash())


async def tools(connection: Connection, params: ToolListParams) -> ToolListResult:
    """Every tool, with what keeps it from running."""
    engine = connection.daemon.engine
    disabled = set(engine.parts.settings().tools.disabled)
    toolsets = None
    offered: tuple[RemoteTool, ...] = ()
    if params.session_id is not None:
        session = engine.sessions.get(params.session_id)
        toolsets, offered = session.row.options.toolsets, tuple(session.client_tools.all())
    rows = []
    for tool in (*engine.parts.tools.all(), *offered):
        card = tool.card
        off = card.name in disabled or (toolsets is not None and not {card.toolset, card.name} & set(toolsets))
        rows.append(
            ToolRow(
                card.name,
                card.toolset,
                card.description,
                f"client {tool.client}" if isinstance(tool, RemoteTool) else "built in",
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


async def config_get(connection: Connection, params: ConfigGetParams) -> ConfigGetResult:
    """A setting and where it comes from."""
    connection.daemon.engine.freshen()
    try:
        value, source = connection.daemon.engine.configuration.get(params.path)
    except Refused as refused:
        raise ProtocolError("invalid_params", f"$.path: {refused}", path="$.path") from refused
    return ConfigGetResult(value, source)


async def config_set(connection: Connection, params: ConfigSetParams) -> ConfigSetResult:
    """Change a setting for everybody. Once for each key."""
    writable(connection)
    engine = connection.daemon.engine
    scope, body = f"client:{connection.by().client_id}", digest(params)
    if params.key is not None:
        known = engine.parts.store.receipt(scope, CONFIG_SET, params.key)
        if known is not None:
            return repeat(known, body, ConfigSetResult)
    try:
        reloaded = engine.set_setting(params.path, params.value)
    except Refused as refused:
        raise ProtocolError("invalid_params", f"$.path: {refused}", path="$.path") from refused
    if reloaded.errors:  # the .env beside it is broken: the setting is written and holds once that is mended
        raise ProtocolError("failed", f"written, and not in force: {reloaded.errors[0]}")
    try:
        value, _ = engine.configuration.get(params.path)
    except Refused:  # a name of the user's that was taken out, such as a plugin's setting: it has no default there
        value = None
    result = ConfigSetResult(value, reloaded.changed, engine.configuration.path, reloaded.warnings)
    if params.key is not None:
        at = engine.parts.clock.now()
        receipt = receipt_op(scope, CONFIG_SET, params.key, body, result, at)
        await engine.parts.store.write(receipt, patience=PATIENCE)
    return result


async def blob_create(connection: Connection, params: BlobCreateParams) -> BlobCreateResult:
    """A piece of a big input."""
    writable(connection)
    return await connection.daemon.engine.sessions.get(params.session_id).add_blob(params)


async def blob_read(connection: Connection, params: BlobReadParams) -> BlobReadResult:
    """A page of a big output. Offsets are bytes; utf8 pages end at a code point."""
    # A control character is six bytes of JSON: a page of so many bytes fits into the frame however it is written.
    limit = max(LONGEST_CHARACTER, min(params.limit, (connection.outbox.frame_limit - 1024) // 6))
    offset = max(0, params.offset)
    store = connection.daemon.engine.parts.store
    named = text_blob_of(params.blob_id)
    row = None if named else store.blob_row(params.blob_id)  # before its bytes: it may grow in between
    growing = row is not None and row.growing
    found = _item_text(store, *named, offset, limit) if named else store.blob(params.blob_id, offset, limit)
    if found is None:
        raise ProtocolError("blob_not_found", f"no blob {params.blob_id}")
    data, total = found
    if params.encoding == "base64":
        end = offset + len(data)
        return BlobReadResult(base64.b64encode(data).decode(), end >= total and not growing, total, end)
    text, used = _whole_characters(data)
    end = offset + used
    return BlobReadResult(text, end >= total and not growing, total, end)


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
