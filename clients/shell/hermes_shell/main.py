"""The `hermes` command: look at the first word, import what it needs and nothing else.

Every import here is paid by every command, `hermes chat -q` included.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_closed()
    try:
        words = _elsewhere(words)
        profile, words = _profile(words)
        return _run(words, profile)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python would still flush at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_BROKEN_PIPE
    except Exception as error:  # the one place where a command's failure becomes a sentence and a code
        from hermes_shell.failures import explain

        return explain(error)


def _open_closed() -> None:
    """Give /dev/null to each standard descriptor the caller had closed: else the daemon's socket would get its
    number, and the answer would be written into the socket."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (lives as long as the process)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


# `--daemon URL` and `--token-file FILE` stand anywhere on the line. They become the variables that say the same, so
# that whatever this command starts talks to the same daemon.
ELSEWHERE = {"--daemon": ("HERMES_DAEMON", "URL"), "--token-file": ("HERMES_DAEMON_TOKEN_FILE", "FILE")}


def _elsewhere(words: list[str]) -> list[str]:
    """The words without the options that name a daemon by its URL."""
    if not any(word.startswith(tuple(ELSEWHERE)) for word in words):
        return words
    left: list[str] = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            return [*left, word, *reversed(rest)]
        name, equals, value = word.partition("=")
        if name not in ELSEWHERE:
            left.append(word)
            continue
        variable, what = ELSEWHERE[name]
        if not equals:
            value = rest.pop() if rest else ""
        if not value:
            from hermes_local.arguments import UsageError

            raise UsageError(f"{name} needs {what} after it")
        os.environ[variable] = value
    return left


def _profile(words: list[str]) -> tuple[str | None, list[str]]:
    """The global `-p PROFILE` in front of the command; after it, it is an option of each command."""
    if words and words[0] in ("-p", "--profile"):
        if len(words) < 2:
            from hermes_local.arguments import UsageError

            raise UsageError(f"{words[0]} needs PROFILE after it")
        return words[1], words[2:]
    if words and words[0].startswith("--profile="):
        return words[0].partition("=")[2], words[1:]
    return None, words


def _run(words: list[str], profile: str | None) -> int:
    if not words and sys.stdin.isatty() and sys.stdout.isatty():
        words = ["chat"]
    name = words[0] if words else ""
    if name == "chat":
        from hermes_shell.chat import chat

        return chat(words[1:], profile)
    if name in ("--version", "-V"):
        from hermes_local import __version__

        print(f"hermes {__version__}")
        return 0
    if name == "demo":
        from hermes_shell import demo

        return demo.run(words[1:], profile)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a title may hold letters that this terminal's encoding has not
    from hermes_shell.dispatch import dispatch

    return dispatch(words, profile)
