"""atheris drives framing and envelope with bytes that its coverage suggests: a bounded run from the stories' frames.

A longer one, by hand: python tests/support/fuzz_wire.py -max_total_time=3600 CORPUS
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stories.story import read, stories
from tests.support.daemon_process import REPOSITORY

pytestmark = [pytest.mark.real, pytest.mark.stage2]
PROGRAM = REPOSITORY / "tests" / "support" / "fuzz_wire.py"
SECONDS = 40


def corpus(folder: Path) -> Path:
    """Every frame of a client in a story, in both framings and cut in several ways."""
    folder.mkdir()
    said = [step for path in stories() for step in read(path).steps if step.said is not None or step.raw is not None]
    bodies = [step.raw.encode() if step.raw is not None else json.dumps(step.said).encode() for step in said]
    for number, body in enumerate([*bodies, b"[" + b",".join(bodies[:4]) + b"]"]):
        cut = bytes([number % 256])
        (folder / f"{number}-line").write_bytes(cut + body + b"\n")
        (folder / f"{number}-headers").write_bytes(cut + b"Content-Length: %d\r\n\r\n%b" % (len(body), body) * 2)
    return folder


def fuzz(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is not installed (pip install atheris, where there is a wheel of it)")
    command = [sys.executable, str(PROGRAM), "-max_len=8192", f"-artifact_prefix={folder}/", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)


def test_no_bytes_found_in_a_bounded_run_break_framing_or_envelope(tmp_path: Path) -> None:
    done = fuzz(tmp_path, f"-max_total_time={SECONDS}", "-seed=1", "-print_final_stats=1", str(corpus(tmp_path / "c")))
    assert done.returncode == 0, done.stderr[-3000:]
    runs = int(done.stderr.split("stat::number_of_executed_units:")[1].split()[0])
    assert runs > 10_000
