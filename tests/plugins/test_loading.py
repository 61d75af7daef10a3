"""A plugin's code: found, imported afresh, and forgotten."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from hermes_daemon.api.testing import PluginFailed, install
from hermes_daemon.middleware.styles import transform
from hermes_daemon.plugins import loading
from hermes_daemon.plugins.discovery import discover, read_folder
from tests.plugins.test_host import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def folder(place: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return place


def test_a_file_of_the_same_second_and_size_is_read_again(home: Home) -> None:
    code = "def register(ctx):\n    ctx.register_command('say', lambda arguments: 'A')\n"
    place = home.add("one", code)

    async def story() -> None:
        await home.plugins.load()
        stamp = os.stat(place / "plugin.py").st_mtime
        (place / "plugin.py").write_text(code.replace("'A'", "'B'"))
        os.utime(place / "plugin.py", (stamp, stamp))
        await home.plugins.reload(["one"])
        [row] = home.estate.commands
        assert row.handler("") == "B"

    home.run(story)


def test_modules_of_a_plugin_import_each_other_relatively_and_are_read_again(home: Home) -> None:
    code = """
        from . import words
        from .deep.more import MORE

        def register(ctx):
            ctx.offer_service("words", words.ALL + MORE)
        """
    place = folder(home.add("talker", code), {"words.py": "ALL = 'a'\n", "deep/more.py": "MORE = 'b'\n"})

    async def story() -> None:
        assert await home.plugins.load() == ()
        assert home.estate.services.get("words") == "ab"
        (place / "words.py").write_text("ALL = 'c'\n")
        await home.plugins.reload()
        assert home.estate.services.get("words") == "cb"

    home.run(story)
    assert not [name for name in sys.modules if name.startswith("hermes_plugins_talker")]


def test_an_entry_below_the_folder_and_an_init_are_entries_and_one_outside_is_none(tmp_path: Path) -> None:
    files = {
        "plugin.yaml": "entry: src/main.py\n",
        "src/main.py": "from .x import register\n",
        "src/x.py": "def register(ctx): ctx.offer_service('x', 1)\n",
    }
    inner = folder(tmp_path / "inner", files)
    with install(inner) as plugin:
        assert plugin.estate.services.get("x") == 1
    files = {
        "plugin.yaml": "name: init\n",
        "__init__.py": "from . import y\nregister = y.register\n",
        "y.py": "def register(ctx): ctx.offer_service('y', 2)\n",
    }
    init = folder(tmp_path / "init", files)
    with install(init) as plugin:
        assert plugin.estate.services.get("y") == 2
    folder(tmp_path, {"outside.py": "def register(ctx): pass\n"})
    out = folder(tmp_path / "out", {"plugin.yaml": "entry: ../outside.py\n"})
    with pytest.raises(PluginFailed, match="has neither"), install(out):
        pass


def test_an_id_of_its_own_wins_over_the_folders_name(home: Home) -> None:
    home.add("some_folder", "def register(ctx): ctx.state.set('a', 1)\n", "id: other-name\n", enabled=False)
    home.settings = type(home.settings)(("other-name",))

    async def story() -> None:
        assert await home.plugins.load() == ()
        assert home.state("other-name")[0] == "loaded"

    home.run(story)
    assert (home.path / "plugin-data" / "other-name" / "state.json").exists()


def test_ids_that_differ_in_a_dash_only_are_twins(home: Home) -> None:
    home.add("a-b", "def register(ctx): pass\n", "id: a-b\n")
    home.add("a_b", "def register(ctx): pass\n", "id: a_b\n", enabled=False)
    home.run(home.plugins.load)
    assert home.state("a_b")[0] == "failed"
    assert "takes the id" in home.state("a_b")[1]


def test_a_plugin_that_comes_later_is_listed_and_one_whose_folder_went_is_still_loaded(home: Home) -> None:
    place = home.add("one", "def register(ctx): pass\n")

    async def story() -> None:
        await home.plugins.load()
        home.add("two", "def register(ctx): pass\n", enabled=False)
        assert home.state("two")[0] == "disabled"
        for path in (place / "plugin.py", place / "plugin.yaml"):
            path.unlink()
        assert home.state("one")[0] == "loaded"
        assert await home.plugins.reload(["one"]) == ("one: there is no such plugin",)

    home.run(story)


def test_reloading_one_leaves_the_others_as_they_are(home: Home) -> None:
    home.add("one", "def register(ctx): ctx.offer_service('one', object())\n")
    home.add("two", "def register(ctx): ctx.offer_service('two', object())\n")

    async def story() -> None:
        await home.plugins.load()
        one, two = home.estate.services.get("one"), home.estate.services.get("two")
        await home.plugins.reload(["one"])
        assert home.estate.services.get("one") is not one
        assert home.estate.services.get("two") is two

    home.run(story)


def test_a_mistyped_id_is_told_with_the_nearest(home: Home) -> None:
    home.add("greeter", "def register(ctx): pass\n", enabled=False)
    home.settings = type(home.settings)(("greter",))
    assert home.run(home.plugins.load) == ("greter: there is no such plugin, did you mean 'greeter'?",)


def test_a_category_that_cannot_be_read_keeps_no_other_from_being_found(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        locked = tmp_path / "plugins" / "locked"
        locked.parent.mkdir()
        locked.symlink_to(locked)  # root reads every folder; a link to itself is one nobody can
    else:
        locked = tmp_path / "plugins" / "locked"
        locked.mkdir(parents=True, mode=0o000)
    folder(tmp_path / "plugins" / "kind" / "inner", {"plugin.yaml": "name: inner\n", "plugin.py": ""})
    found = {each.id: each.fault for each in discover(str(tmp_path / "bundled"), str(tmp_path))}
    assert found["inner"] == ""
    assert "leads nowhere" in found.get("locked", "leads nowhere")


def test_what_a_turn_began_with_works_on_while_the_plugin_is_reloaded(home: Home) -> None:
    home.add("wrapper", """
        import asyncio

        def register(ctx):
            gate = asyncio.Event()
            ctx.offer_service("gate", gate)

            async def wait(value, context):
                await gate.wait()
                return value + " by the old one"

            ctx.on("output", wait)
        """)  # fmt: skip

    async def story() -> None:
        await home.plugins.load()
        gate = home.estate.services.get("gate")
        links = home.registry.snapshot("output")
        running = asyncio.create_task(transform(links, "text", None, lambda link, error: pytest.fail(str(error))))
        await asyncio.sleep(0)
        await home.plugins.reload()
        assert not running.done()
        gate.set()
        assert await running == "text by the old one"

    home.run(story)


def test_what_a_given_up_load_left_in_the_interpreter_is_not_used(tmp_path: Path) -> None:
    files = {
        "plugin.yaml": "name: one\n",
        "plugin.py": "from .part import register\n",
        "part.py": "def register(ctx): ctx.offer_service('v', 1)\n",
    }
    place = folder(tmp_path / "one", files)
    loading.import_register(read_folder("home", str(place)))
    (place / "part.py").write_text("def register(ctx): ctx.offer_service('v', 2)\n")
    with install(place) as plugin:
        assert plugin.estate.services.get("v") == 2
