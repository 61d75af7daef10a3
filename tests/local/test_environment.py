"""What a session is told of the shell it was made in."""

from __future__ import annotations

from hermes_local.environment import session_environment


def test_a_session_gets_paths_and_language_and_no_keys() -> None:
    shell = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "VIRTUAL_ENV": "/v",
        "OPENAI_API_KEY": "sk-1",
        "GITHUB_TOKEN": "t",
        "HERMES_HOME": "/h",
        "LD_PRELOAD": "/x.so",
    }
    assert session_environment(shell) == {"PATH": "/bin", "LC_ALL": "C.UTF-8", "VIRTUAL_ENV": "/v"}
