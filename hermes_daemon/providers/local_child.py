"""The embedded model's own process: llama.cpp's server over one model file, on a loopback port.

Started by `local.py` as a script (nothing of this package is imported, so that it starts fast and stays apart).
Standard input: one JSON line {model, context_length, threads, api_key}; its end is the end of this process. Standard
output: one JSON line {url} or {error, reason}. What llama.cpp says goes to standard error.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from typing import IO, Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h
VERBOSITY = 2  # warnings and errors


def main() -> int:
    """Serve until standard input ends. Exit code 3 when the engine is missing, 1 when the model does not load."""
    die_with_parent()
    # Libraries print what they like: it must not get between the two processes.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    config = json.loads(line)
    leaving = threading.Thread(target=_leave_at_end_of_input, daemon=True)
    leaving.start()
    try:
        server = serve(config)
    except ImportError as error:
        say(answers, {"error": "no_engine", "reason": str(error)})
        return 3
    except Exception as error:  # whatever the engine raises: the parent turns it into a sentence
        say(answers, {"error": "not_loaded", "reason": str(error)})
        return 1
    say(answers, {"url": server.listening_address})
    leaving.join()
    return 0


def serve(config: dict[str, Any]) -> Any:
    """Load the model and listen; the server object, which listens as long as it is referenced."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = config["model"]
    params.n_ctx = config["context_length"]
    params.n_parallel = 1  # one window, whole; a second session waits its turn
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [config["api_key"]]
    params.verbosity = VERBOSITY
    params.ui = False
    params.endpoint_slots = False
    params.cpuparams.n_threads = config["threads"]
    params.cpuparams_batch.n_threads = config["threads"]
    return xllamacpp.Server(params)


def die_with_parent() -> None:
    """Ask the kernel for the end of this process when its parent ends, where it can (Linux)."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it ended before the kernel was asked


def say(answers: IO[str], words: dict[str, Any]) -> None:
    answers.write(json.dumps(words) + "\n")
    answers.flush()


def _leave_at_end_of_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)  # at once: nothing here needs saving, and the engine may be in the middle of a long computation


if __name__ == "__main__":
    sys.exit(main())
