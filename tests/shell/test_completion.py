"""Shell completion."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hermes_shell import completion
from hermes_shell.commands import all_commands
from tests.support.local_shell import Shell


def complete(*words: str) -> set[str]:
    """What bash offers after these words, the last being typed."""
    line = " ".join(f"'{word}'" for word in ("hermes", *words))
    typed = f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _hermes"
    script = f"{completion.bash()}\n{typed}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_offers_commands_verbs_and_options() -> None:
    assert complete("ses") == {"sessions"}
    assert complete("sessions", "re") == {"rename", "rewind"}
    assert complete("sessions", "list", "--c") == {"--cwd"}
    assert complete("chat", "--y") == {"--yolo"}
    assert complete("chat", "-q", "hi", "--yo") == {"--yolo"}
    assert complete("completion", "f") == {"fish"}
    assert complete("say", "s1", "--wh") == {"--when-busy"}


def test_every_script_knows_every_command() -> None:
    for script in (completion.bash(), completion.zsh(), completion.fish()):
        for command in all_commands():
            for word in command.name.split():
                assert word in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_its_shell_can_read(tmp_path: Path, shell: str) -> None:
    done = Shell(tmp_path).run("completion", shell)
    assert done.returncode == 0
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    flag = "--no-execute" if shell == "fish" else "-n"
    subprocess.run([shell, flag], input=done.stdout, text=True, check=True)


def test_another_shell_is_refused(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("completion", "tcsh")
    assert done.returncode == 2
    assert "expected bash, zsh or fish" in done.stderr
