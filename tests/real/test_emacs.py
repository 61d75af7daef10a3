"""Emacs' own JSON-RPC client, jsonrpc.el, over the native dialect on the unix socket."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.counterparty import assert_seen, converse
from tests.support.daemon_process import running_daemon

pytestmark = pytest.mark.real
SCRIPT = Path(__file__).resolve().parents[1] / "support" / "emacs" / "attach.el"


def test_it_attaches_answers_a_permission_and_hears_another_client(tmp_path: Path) -> None:
    program = shutil.which("emacs")
    if program is None:
        pytest.skip("emacs is not installed (apt-get install emacs-nox)")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    with running_daemon(tmp_path) as daemon:
        seen = converse(
            [program, "-Q", "--batch", "-l", str(SCRIPT)], daemon, tmp_path, [daemon.socket_path], environment
        )
    assert_seen(seen, "emacs")
