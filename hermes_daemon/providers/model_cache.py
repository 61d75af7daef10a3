"""What was learned of models while running, kept on disk: lists that endpoints gave, and windows that refusals named.

A file that is broken or missing counts as empty; one that cannot be written costs the memory of it, nothing else.
"""

from __future__ import annotations

import logging
import os
import tempfile
from typing import Any

import msgspec

log = logging.getLogger(__name__)


class Listing(msgspec.Struct):
    """The models an endpoint listed: its address, when (seconds since the epoch), and its rows."""

    url: str
    at: float
    rows: list[dict[str, Any]]


class _File(msgspec.Struct):
    listings: dict[str, Listing] = {}
    limits: dict[str, int] = {}


class ModelCache:
    """Read with the first question, written with each change."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read: _File | None = None

    def listing(self, provider: str, url: str) -> Listing | None:
        """What the provider listed the last time, unless it was another address."""
        known = self._file().listings.get(provider)
        return known if known is not None and known.url == url else None

    def keep_listing(self, provider: str, listing: Listing) -> None:
        """Keep what an endpoint listed."""
        self._file().listings[provider] = listing
        self._write()

    def limit(self, model_id: str) -> int | None:
        """The window in tokens that a refusal of this model named, or None."""
        return self._file().limits.get(model_id)

    def keep_limit(self, model_id: str, tokens: int) -> None:
        """Keep the window that a refusal named; the last one told counts."""
        if self._file().limits.get(model_id) != tokens:
            self._file().limits[model_id] = tokens
            self._write()

    def forget_limit(self, model_id: str) -> None:
        """The endpoint told something newer."""
        if self._file().limits.pop(model_id, None) is not None:
            self._write()

    def _file(self) -> _File:
        if self._read is None:
            try:
                with open(self._path, "rb") as file:
                    self._read = msgspec.json.decode(file.read(), type=_File)
            except FileNotFoundError:
                self._read = _File()
            except (OSError, msgspec.DecodeError, RecursionError) as error:
                log.warning("%s is not readable and begins anew: %s", self._path, error)
                self._read = _File()
        return self._read

    def _write(self) -> None:
        folder = os.path.dirname(self._path)
        try:
            os.makedirs(folder, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=folder, prefix=".models-")
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(self._file()))
            os.replace(name, self._path)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)
