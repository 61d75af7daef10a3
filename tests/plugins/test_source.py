"""The digest of a plugin's source changes with its code, and with nothing else."""

from __future__ import annotations

from pathlib import Path

from hermes_daemon.plugins.discovery import Found
from hermes_daemon.plugins.manifest import Manifest
from hermes_daemon.plugins.source import digest, place


def test_code_and_manifest_count_and_caches_and_papers_do_not(tmp_path: Path) -> None:
    (tmp_path / "plugin.yaml").write_text("name: a\n")
    (tmp_path / "plugin.py").write_text("x = 1\n")
    before = digest(str(tmp_path))
    (tmp_path / "README.md").write_text("words")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "plugin.py").write_text("cached")
    assert digest(str(tmp_path)) == before
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.py").write_text("x = 1\n")
    added = digest(str(tmp_path))
    (tmp_path / "parts" / "one.py").rename(tmp_path / "parts" / "two.py")
    renamed = digest(str(tmp_path))
    (tmp_path / "plugin.yaml").write_text("name: b\n")
    assert len({before, added, renamed, digest(str(tmp_path))}) == 4


def test_a_file_counts_by_its_bytes_and_nothing_has_no_digest(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text("x = 1\n")
    before = digest(str(file))
    file.write_text("x = 2\n")
    assert digest(str(file)) not in ("", before)
    assert digest(str(tmp_path / "gone")) == ""


def test_a_plugin_of_a_package_lies_where_its_module_does(tmp_path: Path) -> None:
    manifest = Manifest(id="a", name="a")
    assert place(Found("a", "home", manifest, str(tmp_path))) == str(tmp_path)
    assert place(Found("a", "package", manifest, entry="hermes_protocol.content:x")).endswith("content.py")
    assert place(Found("a", "package", manifest, entry="no_such_package.module")) == ""
