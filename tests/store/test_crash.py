"""A writer killed at any instant: what was acknowledged is there, and no transaction is torn."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.support.store_rows import open_store

KILLS = 24


def killed_after(path: Path, acknowledgements: int, lag: int) -> int:
    """Run the victim, kill -9 it some instructions after that many answers, and return the last one it gave."""
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "protocol")])}
    command = [sys.executable, "-m", "tests.support.store_victim", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, env=environment) as victim:
        try:
            numbers = [int(victim.stdout.readline()) for _ in range(acknowledgements)]
            for _ in range(lag):  # a fraction of a microsecond each, so that the kill falls anywhere in a transaction
                os.getpid()
        finally:
            victim.kill()
        numbers += [int(line) for line in victim.stdout.read().split(b"\n")[:-1]]
    return max(numbers)


def test_whatever_was_acknowledged_before_a_kill_is_there_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    chance = random.Random(20260301)
    for _ in range(KILLS):
        acknowledged = killed_after(path, chance.randint(1, 120), chance.randint(0, 3000))
        store = open_store(path, retain_events=1_000_000)
        assert store.warnings == ()
        newest = store.event_range("s1")[1]
        assert newest >= acknowledged
        numbers = list(range(1, newest + 1))
        assert [row.seq for row in store.events("s1", 0, newest + 1)] == numbers
        assert [int(m.text.split()[0]) for m in store.messages("s1")] == numbers
        assert [row.item.item_id for row in store.items("s1", limit=newest + 1).rows] == [f"i{n}" for n in numbers]
        row = store.session("s1")
        assert row is not None
        assert row.ceiling == newest
        assert store.search(f"{newest} ", limit=3)[0].item_id == f"i{newest}"
        asyncio.run(store.close())
