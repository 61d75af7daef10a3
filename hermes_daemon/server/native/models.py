"""hermes/models/list and hermes/auth/*: which models there are, and the keys of their endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from hermes_daemon.core.ports import Refused
from hermes_daemon.server.connection import Connection
from hermes_daemon.server.engine_room import EngineRoom
from hermes_daemon.server.native.sessions import writable
from hermes_protocol.errors import ProtocolError
from hermes_protocol.methods import (
    AuthListResult,
    AuthRow,
    AuthSetParams,
    AuthSetResult,
    AuthTestParams,
    AuthTestResult,
    Empty,
    ModelsParams,
    ModelsResult,
)

Row = TypeVar("Row", bound=msgspec.Struct)


async def models(connection: Connection, params: ModelsParams) -> ModelsResult:
    """The models there are; `probe` asks the endpoints."""
    engine = connection.daemon.engine
    engine.freshen()
    rows = await engine.parts.models.rows(params.probe)
    return ModelsResult(_redacted(engine, rows, "note"), engine.parts.models.default())


async def keys(connection: Connection, params: Empty) -> AuthListResult:
    """Where keys are looked for. Nothing is read but variables."""
    engine = connection.daemon.engine
    engine.freshen()
    return AuthListResult(_rows(engine))


async def test_keys(connection: Connection, params: AuthTestParams) -> AuthTestResult:
    """Try the keys of one provider, or of all, side by side."""
    writable(connection)  # it sends requests in the user's name
    engine = connection.daemon.engine
    engine.freshen()
    catalog = engine.parts.models
    names = [params.provider] if params.provider is not None else _providers(engine)
    try:
        found = await asyncio.gather(*map(catalog.test_keys, names))
    except Refused as refused:
        raise ProtocolError("invalid_params", f"$.provider: {refused}", path="$.provider") from None
    return AuthTestResult(_redacted(engine, [row for rows in found for row in rows], "message"))


async def set_key(connection: Connection, params: AuthSetParams) -> AuthSetResult:
    """Keep a key, and go by it at once."""
    writable(connection)
    engine = connection.daemon.engine
    engine.freshen()
    try:
        source = engine.parts.models.key_source(params.provider, params.store)
        if params.store == "keyring":
            await engine.parts.models.keep_key(source, params.value)
            where = "the system's key store"
        else:
            where = engine.set_secret(source, params.value)
        warnings = _name_source(engine, params, source)
    except Refused as refused:
        raise ProtocolError("invalid_params", f"$: {refused}", path="$") from None
    rows = tuple(row for row in _rows(engine) if row.provider == params.provider)
    if params.store == "env" and params.value is not None and not engine.configuration.stored(source):
        warnings = (*warnings, f"the daemon's own environment sets {source} as well, and that value wins")
    return AuthSetResult(rows, where, warnings)


def _name_source(engine: EngineRoom, params: AuthSetParams, source: str) -> tuple[str, ...]:
    """Name the place under the provider's settings, where it is not looked for yet."""
    if params.value is None or source in {row.source for row in _rows(engine) if row.provider == params.provider}:
        return ()
    reloaded = engine.set_setting(f"providers.{params.provider}.api_key_env", source)
    return tuple(map(str, (*reloaded.errors, *reloaded.warnings)))


def _providers(engine: EngineRoom) -> list[str]:
    return list(dict.fromkeys(row.provider for row in engine.parts.models.auth_rows() if row.state != "missing"))


def _rows(engine: EngineRoom) -> tuple[AuthRow, ...]:
    configuration = engine.configuration
    return tuple(
        msgspec.structs.replace(row, note="in .env" if configuration.stored(row.source) else "in the environment")
        if row.kind == "variable" and row.state == "set"
        else row
        for row in engine.parts.models.auth_rows()
    )


def _redacted(engine: EngineRoom, rows: Sequence[Row], field: str) -> tuple[Row, ...]:
    redact = engine.parts.redact
    return tuple(msgspec.structs.replace(row, **{field: redact(getattr(row, field))}) for row in rows)
