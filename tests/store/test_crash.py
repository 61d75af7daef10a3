"""A writer killed at any instant: what was acknowledged is there, and no transaction is torn."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.support.branch_victim import ITEMS
from tests.support.store_rows import open_store

KILLS = 24


def killed_after(path: Path, acknowledgements: int, lag: int, victim_module: str = "store_victim") -> int:
    """Run the victim, kill -9 it some instructions after that many answers, and return the last one it gave."""
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "protocol")])}
    command = [sys.executable, "-m", f"tests.support.{victim_module}", str(path)]
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


def test_a_kill_leaves_no_half_of_a_fork_or_of_a_rewind(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    chance = random.Random(20260302)
    whole = [f"i{number}" for number in range(ITEMS)]
    for _ in range(KILLS // 2):
        acknowledged = killed_after(path, chance.randint(1, 40), chance.randint(0, 3000), "branch_victim")
        store = open_store(path)
        assert store.warnings == ()
        forks = {row.session_id for row in store.sessions(limit=100_000).rows} - {"s1"}
        assert f"f{acknowledged}" in forks
        for fork in forks:
            items = [row.item.item_id for row in store.items(fork, limit=ITEMS).rows]
            numbers = [row.seq for row in store.events(fork, 0, 9)]
            found = (items, len(store.messages(fork)), numbers)
            assert found in ((whole, ITEMS, [2]), (["i0"], 1, [2, 3]))
        taken_back = store.items(f"f{acknowledged}", limit=ITEMS).rows
        assert [row.item.item_id for row in taken_back] == ["i0"]
        assert len(store.messages("s1")) == ITEMS
        assert {hit.session_id for hit in store.search(f'"words {ITEMS - 1}"', limit=100_000)} >= {"s1"}
        asyncio.run(store.close())
