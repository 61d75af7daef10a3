"""What a manifest asks of the machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.plugins.manifest import Manifest
from hermes_daemon.plugins.requirements import unmet, version_fault


@pytest.mark.parametrize(
    ("wanted", "version", "fits"),
    [
        ("", "0.1.0", True),
        (">=0.1", "0.1.0", True),
        (">=0.1,<2", "1.9.9", True),
        (">=0.1,<2", "2.0", False),
        ("==0.1", "0.1.0", True),
        ("!=0.1.0", "0.1", False),
        (">0.1", "0.1.1", True),
        ("<=1.10", "1.9", True),
    ],
)
def test_bounds(wanted: str, version: str, fits: bool) -> None:
    assert (version_fault(wanted, version) == "") is fits


def test_bounds_that_are_none_are_told() -> None:
    assert version_fault("~=1", "1.0") == "expected bounds such as '>=0.1,<2', got '~=1'"


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_one_bound_and_its_opposite_never_agree(left: list[int], right: list[int]) -> None:
    one, other = ".".join(map(str, left)), ".".join(map(str, right))
    assert (version_fault(f">={one}", other) == "") is not (version_fault(f"<{one}", other) == "")


def test_everything_that_is_missing_is_named() -> None:
    manifest = Manifest(
        requires_env=("MY_KEY",), requires_hermes=">=9", platforms=("macos",), python_dependencies=("no-such>=1", "pip")
    )
    assert unmet(manifest, lambda name: None, version="1.0", platform="linux", installed="pip".__eq__) == [
        "MY_KEY is not set",
        "requires_hermes: expected >=9, and this is 1.0",
        "is for macos, and this is linux",
        "needs the Python package 'no-such>=1': pip install no-such",
    ]
    assert unmet(manifest, lambda name: "x", version="9.1", platform="darwin", installed=lambda name: True) == []
