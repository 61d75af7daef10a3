"""hermes/config/set and hermes/daemon/reload: checked before it is written, comments kept, and told what it did."""

from __future__ import annotations

from pathlib import Path

from tests.support.live import live
from tests.support.loops import run

CONFIG = """\
# what I chose
agent:
  max_rounds: 7  # enough
"""


def test_a_setting_is_written_beside_its_comments_and_holds_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config=CONFIG) as daemon:
            peer = await daemon.peer()
            result = await peer.request("hermes/config/set", {"path": "agent.max_rounds", "value": 9})
            assert (result["value"], result["changed"]) == (9, ["agent.max_rounds"])
            assert result["file"] == str(tmp_path / "config.yaml")
            assert (tmp_path / "config.yaml").read_text() == CONFIG.replace("7", "9")
            assert daemon.room.parts.settings().agent.max_rounds == 9
            got = await peer.request("hermes/config/get", {"path": "agent.max_rounds"})
            assert (got["value"], got["source"]) == (9, "config.yaml:3")
            gone = await peer.request("hermes/config/set", {"path": "agent.max_rounds", "value": None})
            assert (gone["value"], gone["changed"]) == (90, ["agent.max_rounds"])
            assert "# what I chose" in (tmp_path / "config.yaml").read_text()

    run(story())


def test_a_setting_that_does_not_fit_changes_no_file(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config=CONFIG) as daemon:
            peer, observer = await daemon.peer(), await daemon.peer("o", client={"id": "o", "role": "observer"})
            for path, value, words in (
                ("agent.max_rounds", "many", "agent.max_rounds"),
                ("agent.max_runds", 3, "max_rounds"),
                ("approvals.mode", "always", "approvals.mode"),
                ("", 3, "setting"),
            ):
                error = await peer.refused("hermes/config/set", {"path": path, "value": value})
                assert (error["code"], words in error["message"]) == (-32602, True), error
            denied = await observer.refused("hermes/config/set", {"path": "agent.max_rounds", "value": 3})
            assert denied["code"] == -32048
            assert (tmp_path / "config.yaml").read_text() == CONFIG

    run(story())


def test_a_repeated_change_does_not_undo_one_that_came_between(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config=CONFIG) as daemon:
            peer = await daemon.peer()
            call = {"path": "agent.max_rounds", "value": 9, "key": "once"}
            first = await peer.request("hermes/config/set", call)
            await peer.request("hermes/config/set", {"path": "agent.max_rounds", "value": 11})
            assert await peer.request("hermes/config/set", call) == first
            assert daemon.room.parts.settings().agent.max_rounds == 11
            assert (await peer.refused("hermes/config/set", call | {"value": 1}))["code"] == -32047

    run(story())


def test_a_reload_says_what_it_read_and_what_has_no_effect(tmp_path: Path) -> None:
    async def story() -> None:
        async with live(str(tmp_path), config=CONFIG) as daemon:
            peer = await daemon.peer()
            (tmp_path / "config.yaml").write_text(CONFIG.replace("7", "8"))
            read = await peer.request("hermes/daemon/reload", {"what": ["config", "tools"]})
            assert read["changed"] == ["agent.max_rounds"]
            assert [note.partition(":")[0] for note in read["warnings"]] == ["tools"]
            assert (await peer.request("hermes/daemon/reload"))["changed"] == []
            plugins = await peer.request("hermes/daemon/reload", {"what": ["plugins"]})
            assert plugins["changed"] == []
            assert "nothing was named" in (await peer.request("hermes/daemon/reload", {"what": []}))["warnings"][0]
            (tmp_path / "config.yaml").write_text("agent: [")
            broken = await peer.request("hermes/daemon/reload", {"what": ["config"]})
            assert "config.yaml" in broken["errors"][0]
            assert daemon.room.parts.settings().agent.max_rounds == 8
            wrong = await peer.refused("hermes/daemon/reload", {"what": ["everything"]})
            assert wrong["code"] == -32602

    run(story())
