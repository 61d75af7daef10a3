"""What is known of the keys of an endpoint without showing one: where each is looked for, and whether it works."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from hermes_daemon.core.ports import ProviderFailure
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.credentials import CredentialError, Key
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_protocol.methods import AuthRow, AuthTested

CHECK_S: Final = 10.0


def key_rows(name: str, settings: ProviderSettings, secret: Callable[[str], str | None]) -> list[AuthRow]:
    """A row for each place where a key of the endpoint is looked for. Key stores are not asked: they may ask people."""
    if not settings.key_sources:
        return [AuthRow(name, "", "none", "not needed")]
    rows = []
    for source in settings.key_sources:
        kind, colon, where = source.partition(":")
        if not colon:
            rows.append(AuthRow(name, source, "variable", "set" if secret(source) else "missing"))
        elif kind == "file":
            there = os.path.exists(os.path.expanduser(where))
            rows.append(AuthRow(name, source, "file", "not read" if there else "missing"))
        else:
            rows.append(AuthRow(name, source, "keyring", "not read"))
    return rows


async def tested(name: str, settings: ProviderSettings, chat: HttpProvider) -> list[AuthTested]:
    """Each key, tried by asking the endpoint for its models; 10 s at most for each."""
    if not settings.key_sources:
        return [await _tried(name, chat, Key("", ""))]
    try:
        keys = await chat.keys.usable()
    except CredentialError as error:
        return [AuthTested(name, " or ".join(settings.key_sources), False, "auth", str(error))]
    found = {key.source for key in keys}
    missing = [
        AuthTested(name, source, False, "missing", "there is no key")
        for source in settings.key_sources
        if source not in found
    ]
    return [*await asyncio.gather(*(_tried(name, chat, key) for key in keys)), *missing]


async def _tried(name: str, chat: HttpProvider, key: Key) -> AuthTested:
    try:
        async with asyncio.timeout(CHECK_S):
            rows = await chat.models(key)
    except ProviderFailure as failure:
        return AuthTested(name, key.source, False, failure.kind, failure.message)
    except TimeoutError:
        return AuthTested(name, key.source, False, "stall", f"{chat.models_url} did not answer within {CHECK_S:g} s.")
    return AuthTested(name, key.source, True, "ok", f"{chat.models_url} lists {len(rows)} models", len(rows))
