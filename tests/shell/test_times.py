"""Times in a table."""

from __future__ import annotations

import datetime

import pytest

from hermes_shell.times import ago

NOW = datetime.datetime(2030, 1, 10, 12, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        ("2030-01-10T11:59:30.123Z", "now"),
        ("2030-01-10T13:00:00.000Z", "now"),
        ("2030-01-10T11:15:00.000Z", "45 min"),
        ("2030-01-10T12:00:00+02:00", "2 h"),
        ("2030-01-07T11:00:00.000Z", "3 d"),
        ("2029-12-24T11:00:00.000Z", "2029-12-24"),
        ("sometime", "sometime"),
    ],
)
def test_a_time_is_said_by_its_distance(stamp: str, text: str) -> None:
    assert ago(stamp, NOW) == text
