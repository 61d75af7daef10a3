"""Where the handed cases lie: HERMES_SHARED_DATA, else ../shared/data beside the repository root."""

import os
from pathlib import Path

import pytest


def handed_case(area: str, name: str) -> Path:
    """The folder of a case; the test is skipped, with the reason, where the cases are absent."""
    given = os.environ.get("HERMES_SHARED_DATA")
    root = Path(given) if given else Path(__file__).resolve().parents[2].parent / "shared" / "data"
    folder = root / "cases" / area / name
    if not folder.is_dir():
        pytest.skip(f"the case {area}/{name} is not at {root}; set HERMES_SHARED_DATA")
    return folder
