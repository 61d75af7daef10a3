"""Runs the real child process code with the stand-in engine, or with none: `python child.py engine|none MARKER`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CHILD = ROOT / "hermes_daemon" / "providers" / "local_child.py"

if __name__ == "__main__":
    if sys.argv[1] == "none":
        sys.modules["xllamacpp"] = None  # type: ignore[assignment] - what an absent package looks like to an import
    else:
        sys.path[:0] = [str(ROOT), str(ROOT / "protocol"), str(Path(__file__).parent)]
    runpy.run_path(str(CHILD), run_name="__main__")
