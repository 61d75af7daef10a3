"""Handed cases: situations from public bug reports as small inputs, kept beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_data() -> Path:
    """The folder of the handed data; skips the test, with the reason, where it is absent."""
    given = os.environ.get("HERMES_SHARED_DATA")
    if given:
        return Path(given)
    for parent in Path(__file__).resolve().parents:
        beside = parent / "shared" / "data"
        if beside.is_dir():
            return beside
    pytest.skip("the handed cases are not here (HERMES_SHARED_DATA, or ../shared/data beside the repository)")


def case(area: str, name: str, file: str) -> bytes:
    """The bytes of one input file of a case."""
    return (shared_data() / "cases" / area / name / file).read_bytes()
