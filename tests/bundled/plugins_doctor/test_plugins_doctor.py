"""A3: what the doctor of the plugins finds, and that it changes nothing."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.api import POINTS, LoadedPlugin, ToolContext
from hermes_daemon.api.testing import install
from hermes_daemon.bundled.plugins_doctor.examination import stale_rows
from hermes_daemon.bundled.plugins_doctor.records import Records
from hermes_daemon.bundled.plugins_doctor.seams import SEAMS, seam_rows
from hermes_daemon.plugins.source import digest
from tests.support.daemon_process import Daemon, running_daemon
from tests.support.live import Peer, live
from tests.support.plugin_home import BUNDLED, PluginHome

DOCTOR = "plugins-doctor"
PLUGIN = BUNDLED / "plugins_doctor"


@pytest.fixture
def home(tmp_path: Path) -> PluginHome:
    home = PluginHome(tmp_path)
    home.enable(DOCTOR)
    return home


def rows(home: PluginHome) -> tuple[list[tuple[str, str, str, str]], int]:
    text, code = home.doctor("--json")
    return [(row["check"], row["plugin"], row["severity"], row["detail"]) for row in json.loads(text)], code


def test_a3_1_a_dangling_link_is_one_fail_of_links_that_names_it(home: PluginHome) -> None:
    home.add("sound")
    (home.path / "plugins" / "gone").symlink_to(home.path / "nowhere")
    found, code = rows(home)
    assert [row for row in found if row[2] == "fail"] == [
        ("links", "gone", "fail", f"{home.path}/plugins/gone: leads nowhere")
    ]
    assert ("links", "sound", "ok", f"{home.path}/plugins/sound") in found
    assert code == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_a_dangling_link_that_is_enabled_is_still_one_fail(home: PluginHome, enabled: bool) -> None:
    (home.path / "plugins").mkdir()
    (home.path / "plugins" / "gone").symlink_to(home.path / "nowhere")
    home.enable(DOCTOR, *(["gone"] if enabled else []))
    found, _ = rows(home)
    assert len([row for row in found if row[2] == "fail"]) == 1


def test_an_enabled_plugin_that_is_nowhere_and_a_broken_manifest_are_fails_of_links(home: PluginHome) -> None:
    home.add("odd", "name: [1]\n")
    home.enable(DOCTOR, "never")
    found, code = rows(home)
    assert [(row[0], row[1]) for row in found if row[2] == "fail"] == [("links", "odd"), ("links", "never")]
    assert code == 1


def test_a3_2_a_wrong_value_fails_and_an_absent_optional_warns(home: PluginHome) -> None:
    home.add("strict", "config_schema: {name: {type: str, default: a}, note: {type: str}}\n")
    home.enable(DOCTOR, "strict", strict={"name": 3, "note": "here"})
    found, code = rows(home)
    assert [row for row in found if row[1] == "strict" and row[0] != "links"] == [
        ("settings", "strict", "fail", "settings.name: expected text, got 3")
    ]
    assert code == 1
    home.enable(DOCTOR, "strict", strict={"name": "b"})
    found, code = rows(home)
    assert ("settings", "strict", "warn", "settings.note: is not set, and has no default") in found
    assert code == 0, "warnings alone are no failure"


def test_an_unknown_setting_warns_with_the_nearest_name_and_a_disabled_plugin_is_not_judged(home: PluginHome) -> None:
    home.add("strict", "config_schema: {name: {type: str, default: a}}\n")
    home.enable(DOCTOR, strict={"name": 3})
    found, code = rows(home)
    assert ([row for row in found if row[0] == "settings" and row[1] == "strict"], code) == ([], 0)
    home.enable(DOCTOR, "strict", strict={"nmae": "b"})
    found, code = rows(home)
    assert ("settings", "strict", "warn", "settings.nmae: there is no such setting, did you mean 'name'?") in found
    assert code == 0


def test_a_plugin_that_could_not_be_loaded_is_a_fail_of_load(home: PluginHome) -> None:
    home.add("broken", code="def register(ctx): raise ValueError('no')\n")
    home.enable(DOCTOR, "broken")
    found, code = rows(home)
    assert [row for row in found if row[2] == "fail"] == [
        ("load", "broken", "fail", "ValueError: no (plugin.py, line 1)")
    ]
    assert code == 1


class Without:
    """An object without one attribute."""

    def __init__(self, whole: Any, missing: str) -> None:
        self._whole, self._missing = whole, missing

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._whole, name)


def test_a3_3_a_host_without_register_role_resolver_fails_seams_and_names_it() -> None:
    with install(PLUGIN) as plugin:
        context = Without(plugin.ctx, "register_role_resolver")
        found = list(seam_rows(context, plugin.host, plugin.ctx.manifest, ToolContext))
    assert [(row.check, row.plugin, row.severity, row.detail) for row in found if row.severity == "fail"] == [
        ("seams", "host", "fail", "S7: ctx has no register_role_resolver")
    ]


@pytest.mark.parametrize(("id", "where", "names"), SEAMS)
def test_every_seam_of_the_table_is_there_and_is_missed_when_it_is_not(
    id: str, where: str, names: tuple[str, ...]
) -> None:
    with install(PLUGIN) as plugin:
        whole = {"ctx": plugin.ctx, "host": plugin.host, "manifest": plugin.ctx.manifest, "tool": ToolContext}
        assert [row.severity for row in seam_rows(*whole.values())] == ["ok"]
        for name in names:
            places = [Without(value, name) if key == where else value for key, value in whole.items()]
            points = [point for point in POINTS if not (where == "point" and point == name)]
            missed = [row.detail for row in seam_rows(*places, points) if row.severity == "fail"]
            assert missed == [f"{id}: {where} has no {name}"]


def test_this_host_lacks_no_seam(tmp_path: Path) -> None:
    async def story() -> None:
        config = f"plugins: {{enabled: [{DOCTOR}]}}\n"
        (tmp_path / "bundled").symlink_to(BUNDLED)
        async with live(str(tmp_path), config=config) as daemon:
            peer = await daemon.peer()
            result = await peer.request("hermes/plugin/doctor", {})
            assert result["by"] == DOCTOR
            assert [row["severity"] for row in result["rows"] if row["check"] == "seams"] == ["ok"]

    asyncio.run(story())


async def stale(daemon: Daemon) -> list[tuple[str, str]]:
    reader, writer = await asyncio.open_unix_connection(daemon.socket_path)
    peer = Peer(reader, writer)
    await peer.initialize("test")
    run = {"name": DOCTOR, "kind": "cli", "arguments": "--json"}
    answer = await peer.request("hermes/command/run", run)
    peer.close()
    await writer.wait_closed()
    assert answer.get("exitCode", 0) == 0
    return [(row["plugin"], row["detail"]) for row in json.loads(answer["text"]) if row["check"] == "stale_import"]


def test_a3_4_an_edited_file_is_stale_in_the_daemon_that_runs_and_not_after_its_restart(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "plugins" / "demo"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: demo\n")
    (folder / "plugin.py").write_text("def register(ctx): pass\n")
    config = f"plugins: {{enabled: [demo, {DOCTOR}]}}\n"
    with running_daemon(tmp_path, config) as daemon:
        assert asyncio.run(stale(daemon)) == []
        (folder / "plugin.py").write_text("def register(ctx): return None\n")
        [(plugin, detail)] = asyncio.run(stale(daemon))
        assert plugin == "demo"
        assert f"process {daemon.pid} runs" in detail
        daemon.stop()
        daemon.start()
        assert asyncio.run(stale(daemon)) == []


def test_a_reload_makes_an_edited_plugin_current_again(home: PluginHome) -> None:
    folder = home.add("demo")
    home.enable(DOCTOR, "demo")

    async def work() -> None:
        await home.plugins.load()
        (folder / "part.py").write_text("x = 1\n")
        assert "stale_import" in (await home.command())[0]
        await home.plugins.reload(["demo"])
        assert "stale_import" not in (await home.command())[0]

    home.run(work)


def record(folder: Path, pid: int, *plugins: LoadedPlugin, started: str | None = None) -> None:
    Records(str(folder), 99).write(plugins, pid)
    if started is not None:
        path = folder / f"{pid}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "started": started}))


def test_another_process_that_runs_old_source_is_named(tmp_path: Path) -> None:
    source = tmp_path / "demo.py"
    source.write_text("x = 1\n")
    old = LoadedPlugin("demo", str(source), digest(str(source)))
    source.write_text("x = 2\n")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        record(tmp_path / "loads", child.pid, old)
        [row] = stale_rows(Records(str(tmp_path / "loads"), 16).living(), digest)
        assert (row.check, row.plugin, row.severity) == ("stale_import", "demo", "warn")
        assert f"process {child.pid} runs" in row.detail
        source.unlink()
        [row] = stale_rows(Records(str(tmp_path / "loads"), 16).living(), digest)
        assert row.detail.startswith(f"process {child.pid} runs what it loaded before; the source in {source} is gone")
        child.communicate(b"\n")


def test_a3_5_the_record_of_a_dead_process_or_of_its_number_is_ignored(tmp_path: Path) -> None:
    old = LoadedPlugin("demo", str(tmp_path), "0" * 64)
    with subprocess.Popen([sys.executable, "-c", "pass"]) as dead:
        dead.wait()
    record(tmp_path / "loads", dead.pid, old)
    record(tmp_path / "loads", os.getpid(), old, started="1")
    (tmp_path / "loads" / "7.json").write_text("{broken")
    assert Records(str(tmp_path / "loads"), 16).living() == ()
    record(tmp_path / "loads", os.getpid(), old)
    assert [each.pid for each in Records(str(tmp_path / "loads"), 16).living()] == [os.getpid()]


def test_a3_6_of_17_records_the_last_16_are_kept(tmp_path: Path) -> None:
    records = Records(str(tmp_path), 16)
    for number in range(1, 18):
        records.write((), 1_000_000 + number)
        os.utime(tmp_path / f"{1_000_000 + number}.json", ns=(number * 10**9, number * 10**9))
    assert len(list(tmp_path.iterdir())) == 16
    assert not (tmp_path / "1000001.json").exists()
    assert (tmp_path / "1000017.json").exists()


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in (folder, *folder.rglob("*"))}


def test_a3_7_a_look_writes_nothing_in_the_folders_of_plugins(home: PluginHome) -> None:
    folder = home.add("demo")
    home.enable(DOCTOR, "demo")

    async def work() -> None:
        await home.plugins.load()
        for path in (folder, folder.parent):
            path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        before = tree(folder.parent)
        try:
            text, code = await home.command()
            assert ("demo" in text, code) == (True, 0)
            assert tree(folder.parent) == before
        finally:
            for path in (folder.parent, folder):
                path.chmod(stat.S_IRWXU)

    home.run(work)
    written = [path for path in (home.path / "plugin-data").rglob("*") if path.is_file()]
    assert all(path.parent.name == "loads" for path in written), "load records are all that it writes"


def test_a3_8_the_json_array_equals_the_rows_of_the_table(home: PluginHome) -> None:
    home.add("strict", "config_schema: {note: {type: str}}\n")
    (home.path / "plugins" / "gone").symlink_to(home.path / "nowhere")
    home.enable(DOCTOR, "strict")

    async def work() -> tuple[str, str]:
        await home.plugins.load()
        return (await home.command())[0], (await home.command("--json"))[0]

    table, array = home.run(work)
    lines = [line.split(maxsplit=3) for line in table.splitlines()]
    assert lines == [[row["severity"], row["check"], row["plugin"], row["detail"]] for row in json.loads(array)]


def test_a3_9_with_nothing_enabled_there_is_nothing_wrong(home: PluginHome) -> None:
    text, code = home.doctor()
    assert code == 0
    assert "fail" not in text.split()
    home.enable()
    assert [row for row in home.plugins.findings() if row.severity != "ok"] == []


def test_a_word_it_does_not_know_is_usage(home: PluginHome) -> None:
    assert home.doctor("--fix") == ("usage: plugins-doctor [--json]", 2)


def test_the_method_answers_without_the_plugin_with_what_the_host_can_tell(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config="plugins: {enabled: [never]}\n") as daemon:
            peer = await daemon.peer()
            result = await peer.request("hermes/plugin/doctor", {})
            assert result.get("by", "host") == "host"
            [row] = result["rows"]
            assert (row["check"], row["plugin"], row["severity"]) == ("links", "never", "fail")

    asyncio.run(story())


def test_two_that_want_one_slot_are_shown(home: PluginHome) -> None:
    for name in ("first", "second"):
        home.add(name, code="def register(ctx): ctx.register_context_engine(object())\n")
    home.enable(DOCTOR, "first", "second")
    found, code = rows(home)
    assert ("load", "second", "fail", "the slot context_engine is first's already") in found
    assert code == 1
