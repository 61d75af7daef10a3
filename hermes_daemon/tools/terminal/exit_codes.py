"""What an exit code means where it is no plain failure. Sources: the commands' manual pages; signal(7)."""

from __future__ import annotations

import signal

_CODES: dict[str, dict[int, str]] = {
    "grep": {1: "no match was found"},
    "diff": {1: "the files differ"},
    "test": {1: "the condition is false"},
    "find": {1: "some folders could not be read"},
    "curl": {
        6: "the host name could not be resolved",
        7: "the connection was refused",
        22: "the server answered with an HTTP error",
        28: "the request timed out",
    },
    "git": {1: "for `git diff` and `git grep` this means a difference, or no match"},
    "pytest": {1: "some tests failed", 5: "no tests were collected"},
}
_SAME = {"egrep": "grep", "fgrep": "grep", "rg": "grep", "ag": "grep", "cmp": "diff", "[": "test", "zgrep": "grep"}

_SIGNALS = {
    3: "quit",
    4: "illegal instruction",
    6: "aborted, often a failed assertion",
    7: "bus error",
    8: "arithmetic error",
    9: "killed, often for want of memory, or by an explicit kill -9",
    11: "segmentation fault",
    13: "broken pipe: the reader went away",
    15: "asked to terminate",
    24: "CPU time limit",
    25: "file size limit",
}


def meaning(code: int, program: str) -> str:
    """A note for the model, or empty. `program` is what the line ran last; a negative code is a signal."""
    if code < 0:
        return f"ended by {_signal(-code)}" if -code != signal.SIGINT else ""
    if code == 126:
        return "the file is not executable"
    if code == 127:
        return "the command was not found"
    known = _CODES.get(_SAME.get(program, program), {}).get(code)
    if known:
        return known
    if code > 128 and code - 128 in _SIGNALS:
        return f"usually means ended by {_signal(code - 128)}"
    return ""


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"signal {number} ({name}: {_SIGNALS[number]})" if number in _SIGNALS else f"signal {number} ({name})"
