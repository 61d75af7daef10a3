"""Errors of hermes_client, before there is a chat to show them in, as a sentence and an exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hermes_client import Disconnected
from hermes_local.spawn import EXIT_REFUSED, EXIT_TRY_AGAIN, EXIT_UNAVAILABLE, EXIT_VERSION
from hermes_protocol.errors import ProtocolError
from hermes_shell.failures import Failed

CODES = {
    "version_unsupported": EXIT_VERSION,
    "draining": EXIT_TRY_AGAIN,
    "overloaded": EXIT_TRY_AGAIN,
    "storage_error": EXIT_UNAVAILABLE,
    "internal": EXIT_UNAVAILABLE,
    "failed": EXIT_UNAVAILABLE,
    "method_not_found": EXIT_UNAVAILABLE,
}


def sentence(refused: ProtocolError) -> str:
    """An error answer for people, with the daemon's hint."""
    hint = refused.data.get("hint")
    return f"{refused.message} {hint}" if isinstance(hint, str) and hint not in refused.message else refused.message


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Raise `Failed`, which the command prints and exits with, for what the daemon refused or could not do."""
    try:
        yield
    except ProtocolError as refused:
        raise Failed(sentence(refused), CODES.get(refused.kind, EXIT_REFUSED)) from refused
    except Disconnected as gone:
        raise Failed(str(gone), EXIT_UNAVAILABLE) from gone
