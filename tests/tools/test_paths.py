import os
import subprocess
import unicodedata
from pathlib import Path

import pytest

from hermes_daemon.core.ports import Refused, Rejected
from hermes_daemon.core.settings import Settings, ToolsSettings
from hermes_daemon.tools.paths import holds_credentials, inside, locate
from tests.support.shared_data import case
from tests.support.tool_context import Bench, Context

OUTSIDE = Settings(tools=ToolsSettings(allow_outside=True))


def test_inside_compares_components_and_not_letters() -> None:
    assert inside("/a/ws/x", "/a/ws")
    assert inside("/a/ws", "/a/ws")
    assert not inside("/a/ws-secret/k", "/a/ws")
    assert inside("/anything", "/")


def test_a_path_outside_is_refused_for_reading_unless_the_setting_allows_it_and_always_for_writing(
    tmp_path: Path,
) -> None:
    ws, other = tmp_path / "ws", tmp_path / "other"
    ws.mkdir()
    other.write_text("x")
    with pytest.raises(Refused, match="outside the session's folder"):
        locate("../other", Context(ws))
    assert locate("../other", Context(ws, settings=OUTSIDE)).path == str(other)
    with pytest.raises(Refused, match="can be changed"):
        locate("../other", Context(ws, settings=OUTSIDE), write=True)


def test_home_is_the_sessions_home(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert locate("~/a", Context(tmp_path)).path == str(tmp_path / "a")
    with pytest.raises(Refused, match="no HOME"):
        locate("~/a", Context(tmp_path, env={}))


@pytest.mark.parametrize("raw", ["", "  ", "a\0b"])
def test_what_is_no_path_is_rejected(raw: str, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="expected a path"):
        locate(raw, Context(tmp_path))


@pytest.mark.parametrize(
    "path",
    ["/h/.ssh/id_rsa", "/h/.ssh", "/h/.aws/credentials", "/x/id_ed25519", "/h/.config/gh/hosts.yml", "/etc/shadow"],
)
def test_credential_stores_are_known_anywhere(path: str) -> None:
    assert holds_credentials(path)


def test_the_daemons_own_files_are_out_of_reach_and_its_neighbours_are_not(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert all(holds_credentials(f"{home}/{name}", home) for name in ("state.db", "state.db-wal", ".env", "logs/x.log"))
    assert not any(
        holds_credentials(f"{home}/{name}", home) for name in ("plugins/x.py", "config.yaml", "project/.env")
    )


def test_kernel_files_are_refused_even_when_reading_outside_is_allowed(tmp_path: Path) -> None:
    for raw in ("/proc/self/environ", "/dev/null"):
        with pytest.raises(Refused, match="kernel"):
            locate(raw, Context(tmp_path, settings=OUTSIDE))


def made(given: Path, folder: Path) -> Path:
    subprocess.run(["bash", str(given / "setup.sh")], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("entered", ["ws", "wslink"])
def test_case_symlinked_folder_and_prefix(entered: str, tmp_path: Path) -> None:
    made(case("files", "symlinked-folder-and-prefix"), tmp_path)
    bench = Bench(tmp_path / entered)
    for path in ("out/f", "../ws-secret/k", str(tmp_path / "ws-secret" / "k"), str(tmp_path / "ws" / "out" / "f")):
        assert bench.run("read_file", path=path).is_error
        assert bench.run("write_file", path=path, content="x").is_error
        assert bench.run("patch", path=path, old_string="f", new_string="x").is_error
        assert bench.run("search_files", pattern=".", path=path).is_error
    assert bench.run("read_file", path="in/f").text.startswith("1|f\n")
    assert bench.run("read_file", path=str(tmp_path / "ws" / "in" / "f")).text.startswith("1|f\n")
    assert not bench.run("patch", path="in/f", old_string="f", new_string="g").is_error
    assert (tmp_path / "ws" / "real" / "f").read_text() == "g\n"
    assert "in/f" not in bench.run("search_files", pattern="g").text
    assert (tmp_path / "outside" / "f").read_text() == "f\n"


def test_case_nfd(tmp_path: Path) -> None:
    made(case("paths", "paths-nfd"), tmp_path)
    composed = unicodedata.normalize("NFC", "résumé.txt")
    bench = Bench(tmp_path)
    read = bench.run("read_file", path=composed)
    assert read.text.startswith("1|x\n")
    assert "other Unicode normal form" in read.text or "another Unicode normal form" in read.text
    written = bench.run("write_file", path=composed, content="y")
    assert not written.is_error
    assert "another Unicode normal form" in written.text
    assert [unicodedata.normalize("NFC", name) for name in os.listdir(tmp_path)] == [composed]


def test_two_names_that_differ_only_in_normal_form_are_not_guessed_between(tmp_path: Path) -> None:
    for form in ("NFC", "NFD"):
        (tmp_path / unicodedata.normalize(form, "é-å.txt")).write_text(form)
    mixed = unicodedata.normalize("NFC", "é") + unicodedata.normalize("NFD", "-å.txt")
    assert Bench(tmp_path).run("read_file", path=mixed).is_error
