"""What of the wire is not for every client: experimental members need an opt-in, deprecated ones are told once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hermes_protocol.errors import ProtocolError
from hermes_protocol.marks import used
from hermes_protocol.methods import Hello, Method


class Gate:
    """One connection's. `features` are the experimental ones its client asked for; `announce` tells it a sentence."""

    def __init__(self, methods: Mapping[str, Method], announce: Callable[[str], None]) -> None:
        self.features: frozenset[str] = frozenset()
        self._methods = methods
        self._announce = announce
        self._told: set[str] = set()

    def opt_in(self, hello: Hello) -> None:
        """Take what the client said in initialize."""
        self.features = frozenset(hello.capabilities.experimental)

    def method(self, name: str) -> ProtocolError | None:
        """experimental_required when the client has not asked for this method; a deprecated one is announced."""
        row = self._methods.get(name)
        if row is None:
            return None
        if row.experimental and row.experimental not in self.features:
            return _needs(name, row.experimental)
        if row.deprecated:
            self._tell(name, row.deprecated)
        return None

    def fields(self, method: str, params: Any) -> ProtocolError | None:
        """The same for the fields of its params."""
        for mark in used(self._methods[method].params, params):
            what = f"{mark.path} of {method}"
            if mark.feature and mark.feature not in self.features:
                return _needs(what, mark.feature)
            if mark.instead:
                self._tell(what, mark.instead)
        return None

    def _tell(self, what: str, instead: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._announce(f"{what} is deprecated and will go with the next major version: {instead}")


def _needs(what: str, feature: str) -> ProtocolError:
    text = f"{what} is experimental: name {feature!r} in capabilities.experimental of initialize"
    return ProtocolError("experimental_required", text, feature=feature)
