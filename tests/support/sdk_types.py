"""The vendors' SDKs as judges: whether a request is what their types say, and how they read an answer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest


def check_request(body: dict[str, Any], package: str, type_path: str) -> None:
    """Fails unless `body` fits the typed dict at `type_path` of the SDK `package` and has no field beside its own."""
    sdk = pytest.importorskip(package, reason=f"the {package} SDK is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pydantic import TypeAdapter

        wanted: Any = sdk
        for name in type_path.split("."):
            wanted = getattr(wanted, name)
        assert set(body) <= set(wanted.__annotations__) | _inherited(wanted), set(body)
        judge = TypeAdapter(wanted)  # kept alive while its lazy iterables are read
        _exhaust(judge.validate_python(body))


def _inherited(wanted: Any) -> set[str]:
    return {name for base in getattr(wanted, "__orig_bases__", ()) for name in getattr(base, "__annotations__", {})}


def _exhaust(value: Any) -> None:
    """The judge looks into iterables only as they are read."""
    if isinstance(value, dict):
        for item in value.values():
            _exhaust(item)
    elif isinstance(value, list | tuple | Iterator) or hasattr(value, "__next__"):
        for item in value:
            _exhaust(item)
