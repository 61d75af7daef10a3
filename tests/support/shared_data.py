"""The handed cases: folders of inputs with the answers that are expected of us."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def case(area: str, name: str) -> Path:
    """The folder of a case; the test is skipped when the cases are not on this machine."""
    root = Path(os.environ.get("HERMES_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")
    folder = root / "cases" / area / name
    if not folder.is_dir():
        pytest.skip(f"the case {area}/{name} is not here; HERMES_SHARED_DATA names the folder that holds cases/")
    return folder
