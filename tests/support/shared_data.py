"""The handed cases: situations from public bug reports as small inputs, kept beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def case(area: str, name: str) -> Path:
    """The folder of a case; the test is skipped, with the reason, where the cases are not."""
    root = Path(os.environ.get("HERMES_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")
    folder = root / "cases" / area / name
    if not folder.is_dir():
        pytest.skip(f"the case {area}/{name} is not here; HERMES_SHARED_DATA names the folder that holds cases/")
    return folder


def case_bytes(area: str, name: str, file: str) -> bytes:
    """The bytes of one input file of a case."""
    return (case(area, name) / file).read_bytes()
