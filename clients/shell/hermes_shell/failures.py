"""What went wrong, as a sentence on standard error and an exit code (protocol section 12, decisions 6)."""

from __future__ import annotations

import sys

from hermes_local.address import AddressError
from hermes_local.arguments import UsageError
from hermes_local.connection import ConnectionLost, RpcError
from hermes_local.spawn import EXIT_REFUSED, EXIT_TRY_AGAIN, EXIT_UNAVAILABLE, DaemonUnavailable

TRY_AGAIN = frozenset({"draining", "overloaded"})
UNAVAILABLE = frozenset({"storage_error", "internal", "method_not_found"})


class Failed(Exception):
    """A command that did not reach its end; the message says why, `exit_code` is the command's."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def explain(error: Exception) -> int:
    """Say what happened and give the exit code. An error of no known kind is a bug and is raised again."""
    code = exit_code(error)
    if code is None:
        raise error
    print(f"hermes: {sentence(error)}", file=sys.stderr)
    return code


def exit_code(error: Exception) -> int | None:
    """The exit code for an error, None for one that only a bug explains."""
    if isinstance(error, (DaemonUnavailable, Failed)):
        return error.exit_code
    if isinstance(error, UsageError):
        return 2
    if isinstance(error, RpcError):
        if error.kind in TRY_AGAIN:
            return EXIT_TRY_AGAIN
        return EXIT_UNAVAILABLE if error.kind in UNAVAILABLE else EXIT_REFUSED
    if isinstance(error, (AddressError, ConnectionLost)):
        return EXIT_UNAVAILABLE
    if isinstance(error, TimeoutError):
        return EXIT_TRY_AGAIN
    return 1 if isinstance(error, OSError) and error.strerror else None


def sentence(error: Exception) -> str:
    """The message for people, with the hint that the daemon may have sent along."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    if isinstance(error, RpcError):
        hint = error.data.get("hint")
        if isinstance(hint, str) and hint and hint not in text:
            text = f"{text} {hint}"
        if error.kind == "method_not_found":
            text = f"{text}: this daemon does not offer it; `hermes daemon restart` after an upgrade may help"
    return text
