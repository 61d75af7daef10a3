"""Where a daemon lives."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import platformdirs
import pytest

from hermes_local.address import Address, AddressError, ensure_private_dir, resolve, runtime_dir


def private(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True)
    path.chmod(0o700)
    return path


@pytest.mark.parametrize("data_home", ["", "set", "relative"])
@pytest.mark.parametrize("runtime", ["missing", "private"])
def test_the_folders_are_those_that_platformdirs_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_home: str, runtime: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", {"": "", "set": str(tmp_path / "data"), "relative": "data"}[data_home])
    monkeypatch.delenv("HERMES_HOME", raising=False)
    monkeypatch.delenv("HERMES_PROFILE", raising=False)
    place = tmp_path / "run"
    if runtime == "private":
        private(place)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    address = resolve()
    assert address.home == os.path.realpath(platformdirs.user_data_dir("hermes-daemon"))
    assert address.runtime_dir == platformdirs.user_runtime_dir("hermes-daemon")


@pytest.mark.filterwarnings("ignore:XDG_RUNTIME_DIR")
def test_without_a_runtime_folder_of_the_session_platformdirs_place_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert runtime_dir(os.environ) == platformdirs.user_runtime_dir("hermes-daemon")


def test_a_runtime_folder_that_others_may_enter_is_passed_over(tmp_path: Path) -> None:
    place = private(tmp_path / "run")
    place.chmod(0o755)
    assert not runtime_dir({"XDG_RUNTIME_DIR": str(place)}).startswith(str(place))


def test_hermes_home_is_the_home_and_a_link_to_it_is_the_same_address(tmp_path: Path) -> None:
    private(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    one = resolve({"HERMES_HOME": str(tmp_path / "real"), "XDG_RUNTIME_DIR": "/run/x"})
    two = resolve({"HERMES_HOME": str(tmp_path / "link"), "XDG_RUNTIME_DIR": "/run/x"})
    assert one.home == str(tmp_path / "real")
    assert one.socket_path == two.socket_path


def test_a_tilde_in_hermes_home_is_the_users_home(tmp_path: Path) -> None:
    assert resolve({"HERMES_HOME": "~/h", "HOME": str(tmp_path)}).home == str(tmp_path / "h")


def test_each_profile_has_a_home_and_a_socket_of_its_own(tmp_path: Path) -> None:
    env = {"HERMES_HOME": str(tmp_path), "HERMES_PROFILE": "work"}
    work, default = resolve(env), resolve(env, profile="default")
    assert work.home == f"{tmp_path}/profiles/work"
    assert default.home == str(tmp_path)
    assert work.socket_path != default.socket_path
    assert resolve({**os.environ, **work.environ()}).home == work.home


@pytest.mark.parametrize("name", ["../up", "a/b", "Upper", "-dash", "_low", "x" * 65, "sp ace", "ünicode"])
def test_a_profile_that_is_no_name_is_refused_with_what_was_expected(name: str) -> None:
    with pytest.raises(AddressError, match="expected 1 to 64"):
        resolve({"HERMES_HOME": "/h"}, profile=name)


def test_the_sockets_name_is_twelve_digits_of_sha256_over_home_and_profile() -> None:
    address = Address("/h", "p", "/run/user/1/hermes-daemon")
    digits = hashlib.sha256(b"/h\0p").hexdigest()[:12]
    assert address.socket_path == f"/run/user/1/hermes-daemon/d-{digits}.sock"
    assert address.lock_path == f"/run/user/1/hermes-daemon/d-{digits}.lock"


def test_a_socket_path_too_long_for_the_kernel_moves_below_tmp_and_leaves_a_link() -> None:
    deep = "/run/" + "d" * 90
    address = Address("/h", "", deep)
    assert len(os.fsencode(address.socket_path)) <= 100
    assert address.socket_path.startswith(f"/tmp/hermes-daemon-{os.geteuid()}/d-")
    assert address.socket_link.startswith(deep)
    assert address.lock_path.startswith(deep)


def test_a_private_folder_is_made_with_mode_0700_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        ensure_private_dir(str(tmp_path / "a"))
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    private(tmp_path / "a").chmod(0o770)
    with pytest.raises(AddressError, match="can be written by others"):
        ensure_private_dir(str(tmp_path / "a"))


def test_a_link_or_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    private(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(AddressError, match="is not a folder"):
            ensure_private_dir(str(tmp_path / name))


def test_a_folder_inside_one_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    private(tmp_path / "open" / "a")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(AddressError, match="lies in a folder that others can write"):
        ensure_private_dir(str(tmp_path / "open" / "a"))
    (tmp_path / "open").chmod(0o1777)
    ensure_private_dir(str(tmp_path / "open" / "a"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder for somebody else")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(private(tmp_path / "a"), 12345, -1)
    with pytest.raises(AddressError, match="belongs to uid 12345"):
        ensure_private_dir(str(tmp_path / "a"))
    with pytest.raises(AddressError, match="lies in a folder of uid 12345"):
        ensure_private_dir(str(tmp_path / "a" / "b"))
