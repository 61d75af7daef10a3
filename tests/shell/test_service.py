"""The files with which systemd and launchd start the daemon."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as user:
        user.env["XDG_CONFIG_HOME"] = str(tmp_path / "config")
        yield user


def units(shell: Shell) -> Path:
    return Path(shell.env["XDG_CONFIG_HOME"], "systemd", "user")


INSTALL = ("daemon", "install", "--for", "systemd")


def test_installing_writes_a_service_for_this_home_and_says_how_to_enable_it(shell: Shell) -> None:
    done = shell.run(*INSTALL)
    assert done.returncode == 0, done.stderr
    text = (units(shell) / "hermes-daemon.service").read_text()
    assert f'ExecStart="{sys.executable}" "-P" "-m" "hermes_daemon" "serve" "--supervised"' in text
    assert f'"HERMES_HOME={shell.env["HERMES_HOME"]}"' in text
    assert "WantedBy=default.target" in text
    assert "systemctl --user enable --now hermes-daemon.service" in done.stdout
    assert [path.name for path in units(shell).iterdir()] == ["hermes-daemon.service"]


def test_socket_activation_listens_where_the_clients_look(shell: Shell) -> None:
    done = shell.run(*INSTALL, "--socket-activation")
    assert f"ListenStream={shell.address.socket_path}\n" in (units(shell) / "hermes-daemon.socket").read_text()
    service = (units(shell) / "hermes-daemon.service").read_text()
    assert "Requires=hermes-daemon.socket" in service
    assert "enable --now hermes-daemon.socket" in done.stdout


def test_a_profile_has_a_service_of_its_own(shell: Shell) -> None:
    assert shell.run("profiles", "create", "work").returncode == 0
    assert shell.run(*INSTALL, "-p", "work").returncode == 0
    assert '"HERMES_PROFILE=work"' in (units(shell) / "hermes-daemon-work.service").read_text()


def test_print_shows_and_writes_nothing(shell: Shell) -> None:
    done = shell.run(*INSTALL, "--socket-activation", "--print")
    assert f"# {units(shell)}/hermes-daemon.service\n" in done.stdout
    assert "ListenStream=" in done.stdout
    assert not units(shell).exists()


def test_a_file_edited_by_hand_is_only_overwritten_or_removed_by_force(shell: Shell) -> None:
    assert shell.run(*INSTALL).returncode == 0
    assert shell.run(*INSTALL).returncode == 0, "unchanged: it may be written again"
    path = units(shell) / "hermes-daemon.service"
    edited = path.read_text().replace("TimeoutStopSec=60", "TimeoutStopSec=5")
    path.write_text(edited)
    for words in (INSTALL, ("daemon", "uninstall", "--for", "systemd")):
        refused = shell.run(*words)
        assert refused.returncode == 5
        assert "edited by hand" in refused.stderr
        assert path.read_text() == edited
    assert shell.run(*INSTALL, "--force").returncode == 0
    assert "TimeoutStopSec=60" in path.read_text()


def test_uninstalling_takes_everything_away_again(shell: Shell) -> None:
    assert "nothing is installed" in shell.run("daemon", "uninstall", "--for", "systemd").stdout
    shell.run(*INSTALL, "--socket-activation")
    wants = units(shell) / "sockets.target.wants"
    wants.mkdir()
    (wants / "hermes-daemon.socket").symlink_to("../hermes-daemon.socket")
    done = shell.run("daemon", "uninstall", "--for", "systemd")
    assert done.returncode == 0
    assert "systemctl --user stop hermes-daemon.socket hermes-daemon.service" in done.stdout
    assert [path for path in units(shell).rglob("*") if not path.is_dir()] == []


def test_a_home_with_odd_letters_is_written_so_that_it_means_itself(shell: Shell, tmp_path: Path) -> None:
    shell.env["HERMES_HOME"] = f'{tmp_path}/a "b" 50% $c'
    shell.run(*INSTALL)
    text = (units(shell) / "hermes-daemon.service").read_text()
    assert f'Environment="HERMES_HOME={tmp_path}/a \\"b\\" 50%% $c"' in text


def test_launchd_gets_a_plist(shell: Shell) -> None:
    done = shell.run("daemon", "install", "--for", "launchd")
    path = Path(shell.env["HOME"], "Library/LaunchAgents/hermes-daemon.plist")
    read = plistlib.loads(path.read_bytes())
    assert read["Label"] == "hermes-daemon"
    assert read["ProgramArguments"][:6] == [sys.executable, "-P", "-m", "hermes_daemon", "serve", "--supervised"]
    assert read["EnvironmentVariables"]["HERMES_HOME"] == shell.env["HERMES_HOME"]
    assert read["KeepAlive"] == {"SuccessfulExit": False}
    assert f"launchctl bootstrap gui/{os.getuid()} {path}" in done.stdout
    refused = shell.run("daemon", "install", "--for", "launchd", "--socket-activation")
    assert refused.returncode == 5
    assert shell.run("daemon", "uninstall", "--for", "launchd").returncode == 0
    assert not path.exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_finds_no_fault_in_the_units(shell: Shell) -> None:
    shell.run(*INSTALL, "--socket-activation")
    files = sorted(str(path) for path in units(shell).iterdir())
    verify = ["systemd-analyze", "--user", "--man=no", "verify", *files]
    done = subprocess.run(verify, env=shell.env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
