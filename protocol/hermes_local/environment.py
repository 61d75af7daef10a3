"""Which variables of this process a new session is given for its commands.

A daemon outlives the shell that started it, so a session gets its own environment at creation: the names below and
nothing else. Keys and tokens stay where they are.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "EDITOR", "PAGER"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION", "NVM_DIR", "NODE_PATH"),
        *("GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY"),
    }
)
PREFIXES = ("LC_", "XDG_")


def session_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of `environ` (None: of this process) that a session's commands need to behave as in this shell."""
    source = os.environ if environ is None else environ
    return {name: value for name, value in source.items() if name in NAMES or name.startswith(PREFIXES)}
