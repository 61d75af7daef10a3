"""Python packages as plugins, by their entry point: built, installed and loaded."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.daemon_process import SOURCES
from tests.support.local_shell import Shell

CODE = """
def register(ctx):
    ctx.register_cli_command("tiny", lambda arguments: f"{ctx.get_config('word', 'no manifest')} {arguments}")
"""


def wheel(place: Path, *, manifest: str = "", entry: str = "tiny_plugin.inner:register") -> Path:
    """A wheel as any build backend makes one."""
    about = "tiny_plugin-1.2.dist-info"
    files = {
        "tiny_plugin/__init__.py": "",
        "tiny_plugin/inner.py": CODE,
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: tiny-plugin\nVersion: 1.2\nSummary: Tiny.\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[hermes_daemon.plugins]\ntiny = {entry}\n",
    }
    if manifest:
        files["tiny_plugin/plugin.yaml"] = manifest
    record = f"{about}/RECORD"
    files[record] = "".join(f"{name},,\n" for name in (*files, record))
    path = place / "tiny_plugin-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def installed(shell: Shell, tmp_path: Path, package: Path) -> None:
    """Install it into a site folder that the daemon's interpreter reads, as pip does."""
    site = tmp_path / "site"
    with zipfile.ZipFile(package) as archive:
        archive.extractall(site)
    shell.env["PYTHONPATH"] = f"{site}:{shell.env['PYTHONPATH']}"


def test_an_installed_package_is_found_enabled_and_loaded(shell: Shell, tmp_path: Path) -> None:
    manifest = "name: Tiny one\nconfig_schema: {word: {type: string, default: hello}}\n"
    installed(shell, tmp_path, wheel(tmp_path, manifest=manifest))
    with shell:
        listed = shell.run("plugins").stdout.splitlines()[1].split()
        assert listed == ["tiny", "1.2", "package", "disabled"]
        assert shell.run("plugins", "enable", "tiny").stdout == "tiny is loaded: commands tiny\n"
        assert shell.run("tiny", "you").stdout == "hello you\n"
        assert shell.run("plugins", "config", "tiny", "word", "bye").stdout == "word = bye\n"
        assert shell.run("tiny", "you").stdout == "bye you\n"
        assert shell.run("plugins", "disable", "tiny").stdout == "tiny is disabled\n"


@pytest.mark.parametrize("entry", ["tiny_plugin.inner", "tiny_plugin.inner:register"])
def test_a_package_without_a_manifest_is_known_by_its_metadata(shell: Shell, tmp_path: Path, entry: str) -> None:
    installed(shell, tmp_path, wheel(tmp_path, entry=entry))
    with shell:
        assert shell.run("plugins").stdout.splitlines()[1].split() == ["tiny", "1.2", "package", "disabled", "Tiny."]
        shell.run("plugins", "enable", "tiny")
        assert shell.run("tiny", "you").stdout == "no manifest you\n"


def test_an_entry_that_is_no_function_says_so(shell: Shell, tmp_path: Path) -> None:
    installed(shell, tmp_path, wheel(tmp_path, entry="tiny_plugin.inner:nothing"))
    with shell:
        done = shell.run("plugins", "enable", "tiny")
    assert done.returncode == 1
    assert "tiny_plugin.inner:nothing is no function register(ctx)" in done.stderr


def test_pip_installs_the_wheel_and_the_daemon_of_that_environment_finds_it(tmp_path: Path) -> None:
    place = tmp_path / "env"
    venv.create(place, with_pip=False, system_site_packages=False)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", "-q"]
    done = subprocess.run([*pip, str(wheel(tmp_path))], capture_output=True, text=True, check=False)
    if "No module named pip" in done.stderr:
        pytest.skip("pip is not installed here")
    assert done.returncode == 0, done.stderr
    code = (
        "from hermes_daemon.plugins.discovery import discover\n"
        "print([(each.id, each.entry, each.fault) for each in discover('', '/nowhere')])"
    )
    paths = [*SOURCES, *(path for path in sys.path if path.endswith("site-packages"))]
    done = subprocess.run([python, "-c", code], env={"PYTHONPATH": ":".join(paths)}, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.stdout == "[('tiny', 'tiny_plugin.inner:register', '')]\n", done.stderr


def test_nothing_of_a_package_is_imported_to_list_it(tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel(tmp_path, manifest="name: tiny\n")) as archive:
        archive.extractall(site)
    code = (
        "import sys\nfrom hermes_daemon.plugins.discovery import discover\n"
        "print([each.id for each in discover('', '/nowhere')], 'tiny_plugin' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join([str(site), *SOURCES, *sys.path])},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.stdout == "['tiny'] False\n", done.stderr
