"""Configuration: config.yaml, home/.env and the environment become typed settings. Nobody else reads them.

`load` reads everything once; `Configuration` is the live object of a daemon, which keeps the last good settings when a
later reading fails. YAML is imported only when there is a config.yaml.
"""

from __future__ import annotations

from collections.abc import Sequence

from hermes_daemon.config.live import Configuration
from hermes_daemon.config.loading import Loaded, load
from hermes_daemon.config.problem import ConfigError
from hermes_daemon.core.ports import Reload

__all__ = ["ConfigError", "Configuration", "Loaded", "Reload", "load", "main"]


def main(argv: Sequence[str]) -> int:
    """`hermes-daemon config get|set|path|validate`; exit code 0 done, 1 the configuration is at fault, 2 usage."""
    from hermes_daemon.config.command import main as run

    return run(argv)
