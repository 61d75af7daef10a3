"""The plugin in its host: settings, service, tool and command; it changes nothing but its ledgers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hermes_daemon.bundled
from hermes_daemon.api.testing import Installed, PluginFailed, install
from tests.support.live import live

FOLDER = Path(hermes_daemon.bundled.__file__).parent / "shadow_gate"
NAME = "meta_classifier.risk"
POLICY = {"min_pairs": 2, "min_agreement": 0.9, "max_false_positive": 0.1, "positive_verdicts": ["high"],
          "positive_outcomes": ["denied"]}  # fmt: skip


def gate(plugin: Installed) -> Any:
    return plugin.estate.services.get("shadow_gate")


def fill(service: Any, pairs: int = 3, outcome: str = "denied") -> None:
    for number in range(pairs):
        assert service.append_verdict(NAME, f"k{number}", "high", {"tool": "terminal"})
        assert service.append_outcome(NAME, f"k{number}", outcome)


def command(plugin: Installed, arguments: str = "") -> tuple[str, int]:
    answer: tuple[str, int] = plugin.command("shadow-status", arguments, kind="cli")
    return answer


def ledger_path(plugin: Installed) -> str:
    path: str = gate(plugin).ledgers.path(NAME)
    return path


def test_A2_1_without_a_policy_the_status_is_not_qualified_and_says_so() -> None:
    with install(FOLDER) as plugin:
        for number in range(30):
            gate(plugin).append_verdict("area.same", str(number), "easy")
            gate(plugin).append_outcome("area.same", str(number), "easy")
        report = json.loads(plugin.tool("shadow_status", decision="area.same").text)["decisions"][0]
        assert (report["status"], report["reasons"]) == ("NOT_QUALIFIED", ["no_policy"])
        assert (report["pairs"], report["agreement"]) == (30, 1.0)
        assert command(plugin) == (
            "area.same: NOT_QUALIFIED (no_policy)\n  30 pairs, agreement 100.0%, false positives unknown\n"
            "  unpaired: 0 verdicts, 0 outcomes",
            0,
        )


def test_a_policy_that_is_satisfied_qualifies_and_one_that_is_not_gives_its_reasons() -> None:
    with install(FOLDER, {"decisions": {NAME: POLICY}}) as plugin:
        text, code = command(plugin, f"--decision {NAME}")
        assert "NOT_QUALIFIED (min_pairs, min_agreement, max_false_positive)" in text
        assert code == 0
        fill(gate(plugin))
        report = json.loads(command(plugin, f"--decision={NAME} --json")[0])["decisions"][0]
        assert (report["status"], report["reasons"]) == ("QUALIFIED", [])
        fill(gate(plugin), outcome="approved")
        report = json.loads(plugin.tool("shadow_status").text)["decisions"][0]
        assert (report["status"], report["reasons"]) == ("NOT_QUALIFIED", ["min_agreement", "max_false_positive"])
        assert (report["pairs"], report["agreement"], report["false_positive"]) == (6, 0.5, 0.5)


def test_superseded_verdicts_and_lone_rows_stay_visible() -> None:
    with install(FOLDER) as plugin:
        service = gate(plugin)
        service.append_outcome(NAME, "early", "denied")
        service.append_verdict(NAME, "k", "low")
        service.append_verdict(NAME, "k", "high")
        service.append_outcome(NAME, "k", "denied")
        unpaired = service.report(NAME)["unpaired"]
        assert (unpaired["verdicts"], unpaired["outcomes"]) == (1, 1)
        assert [(row["kind"], row["key"]) for row in unpaired["newest"]] == [("outcome", "early"), ("verdict", "k")]


@pytest.mark.parametrize("arguments", ["--decision ../x", "--decision ''", "--decision A", "--nonsense", "--decision"])
def test_A2_5_a_name_that_is_none_and_words_that_are_no_arguments_end_with_two(arguments: str) -> None:
    with install(FOLDER) as plugin:
        text, code = command(plugin, arguments)
        assert code == 2
        assert "expected" in text


def test_A2_5_an_unusable_ledger_ends_with_two_and_a_missing_one_with_none() -> None:
    with install(FOLDER) as plugin:
        assert command(plugin) == ("No decision has rows or a policy.", 0)
        assert command(plugin, "--decision never.written")[1] == 0
        os.makedirs(ledger_path(plugin))
        gate(plugin).append_verdict("area.good", "k", "high")
        text, code = command(plugin)
        assert code == 2
        assert f"{NAME}.jsonl: Is a directory" in text
        assert "area.good: NOT_QUALIFIED" in text
        assert plugin.tool("shadow_status").is_error


def test_rows_that_cannot_be_kept_are_counted_and_nothing_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    with install(FOLDER) as plugin:
        service = gate(plugin)
        assert service.append_verdict(NAME, "k", "high")
        os.unlink(ledger_path(plugin))
        os.makedirs(ledger_path(plugin))
        assert not service.append_verdict(NAME, "k", "high")
        assert not service.append_outcome(NAME, "k", "denied")
        assert not service.append_outcome("../x", "k", "denied")
        assert service.ledger_unavailable == 3
        shutil.rmtree(ledger_path(plugin))
        assert service.report(NAME)["ledger_unavailable"] == 2
        assert command(plugin)[1] == 0
        said = [row.getMessage() for row in caplog.records if "are not kept" in row.getMessage()]
        assert len(said) == 2


@pytest.mark.parametrize(
    ("decisions", "words"),
    [
        ({"../x": POLICY}, r"settings\.decisions: expected names such as area\.decision, got '\.\./x'"),
        ({NAME: {}}, rf"settings\.decisions\.{NAME}: Object missing required field `min_pairs`"),
        ({NAME: POLICY | {"min_pairs": 0}}, rf"settings\.decisions\.{NAME}\.min_pairs: Expected `int` >= 1"),
        ({NAME: POLICY | {"min_agreement": 1.1}}, r"min_agreement: Expected `float` <= 1"),
        ({NAME: POLICY | {"positive_verdicts": []}}, r"positive_verdicts: Expected `array` of length >= 1"),
        ({NAME: POLICY | {"positive_outcomes": "denied"}}, r"positive_outcomes: Expected `array`"),
        ({NAME: POLICY | {"max_cost": 1}}, rf"settings\.decisions\.{NAME}: Object contains unknown field `max_cost`"),
        ({NAME: 3}, rf"settings\.decisions\.{NAME}: Expected `object`"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_by_decision_and_field(decisions: Mapping[str, Any], words: str) -> None:
    with pytest.raises(PluginFailed, match=words), install(FOLDER, {"decisions": decisions}):
        pass


def test_what_was_written_is_there_after_a_reload() -> None:
    with install(FOLDER) as plugin:
        fill(gate(plugin), 2)
        plugin.unload()
        assert gate(plugin) is None
        plugin.load(str(FOLDER), {}, ())
        assert gate(plugin).report(NAME)["pairs"] == 2


def test_A2_4_a_decision_that_qualifies_changes_nothing_that_a_tool_call_goes_through(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bundled").mkdir(parents=True)
    (home / "bundled" / "shadow_gate").symlink_to(FOLDER)
    config = {"plugins": {"enabled": ["shadow-gate"], "entries": {"shadow-gate": {"settings": {"decisions": {
        NAME: POLICY}}}}}}  # fmt: skip
    call = "scripted/tool?name=shadow_status&args=" + json.dumps({"decision": "area.other"}).replace(" ", "")

    async def story() -> None:
        async with live(str(home), config=json.dumps(config)) as running:
            peer = await running.peer()
            estate = running.room.guests.estate

            async def dispatched() -> tuple[Any, ...]:
                session = await peer.session(model=call)
                ended = await peer.say(session, "go")
                event = await peer.event("item.completed")
                while event["data"]["item"]["type"] != "toolCall":
                    event = await peer.event("item.completed")
                item = event["data"]["item"]
                links = [(row.point, row.owner) for row in running.room.parts.middleware.rows()]
                shown = {name: item.get(name) for name in ("name", "title", "args", "output", "error")}
                return ended["data"]["status"], shown, links, [tool.card for tool in estate.all()]

            before = await dispatched()
            service = estate.services.get("shadow_gate")
            await asyncio.to_thread(fill, service)
            assert service.report(NAME)["status"] == "QUALIFIED"
            assert await dispatched() == before
            assert "area.other" in str(before)

    asyncio.run(story())
