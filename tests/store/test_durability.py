"""What an acknowledgement means for the disk, seen from the outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import asyncio, os, sys
from hermes_daemon.core.records import AddMessage
from tests.support.store_rows import message, put_session, with_store

async def work(store):
    await store.write(put_session())
    await store.tidy()
    for durable in (True, False):
        os.write(1, b"begin\\n")
        for n in range(20):
            await store.write(AddMessage(session_id="s1", message=message(str(n))), durable=durable)
        os.write(1, b"end\\n")

from pathlib import Path
with_store(Path(sys.argv[1]), work)
"""


def test_a_durable_write_is_synced_before_it_is_acknowledged_and_a_relaxed_one_is_not(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    root, log = Path(__file__).parents[2], tmp_path / "calls"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "protocol")])}
    command = ["strace", "-f", "-e", "trace=fsync,fdatasync,write", "-s", "8", "-o", str(log)]
    run = subprocess.run(
        [*command, sys.executable, "-c", _SCRIPT, str(tmp_path / "state.db")],
        capture_output=True, env=environment, cwd=root, check=False,
    )  # fmt: skip
    if run.returncode and b"PTRACE" in run.stderr:
        pytest.skip("tracing is not allowed here")
    assert run.returncode == 0, run.stderr
    syncs, count = list[int](), 0
    for line in log.read_text().splitlines():
        if '"begin' in line:
            count = 0
        elif '"end' in line:
            syncs.append(count)
        elif "sync(" in line:
            count += 1
    assert syncs == [20, 0]
