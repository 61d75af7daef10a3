"""Named services: how plugins share code without knowing each other."""

from __future__ import annotations

import threading
from typing import Any

from hermes_daemon.core.ports import Refused


class Services:
    """One object a name, offered by one plugin. `get` gives None for what nobody offers."""

    def __init__(self) -> None:
        self._offered: dict[str, tuple[str, Any]] = {}
        self._changing = threading.Lock()

    def offer(self, name: str, service: Any, owner: str) -> None:
        """Refused when another plugin offers that name already."""
        with self._changing:
            before = self._offered.get(name)
            if before is not None and before[0] != owner:
                raise Refused(f"the service {name!r} is offered by {before[0]} already")
            self._offered = {**self._offered, name: (owner, service)}

    def get(self, name: str) -> Any:
        """The service, or None."""
        return self._offered.get(name, ("", None))[1]

    def owner(self, name: str) -> str:
        """The plugin that offers it, "" for none."""
        return self._offered.get(name, ("", None))[0]

    def withdraw(self, owner: str, name: str | None = None) -> None:
        """Take back what a plugin offers, or one of it."""
        with self._changing:
            self._offered = {
                key: row for key, row in self._offered.items() if row[0] != owner or (name is not None and key != name)
            }
