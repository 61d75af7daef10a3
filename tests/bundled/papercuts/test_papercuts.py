"""A20: what a user, a model and the other plugins get of papercuts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import hermes_daemon.bundled.papercuts
from hermes_daemon.api import GateFriction, SessionPhase, StorageError
from hermes_daemon.api.testing import Installed, PluginFailed, a_result, install
from hermes_daemon.core.redact import Redactor

PLUGIN = Path(hermes_daemon.bundled.papercuts.__file__).parent
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
WRITER = Path(__file__).parents[2] / "support" / "papercut_writer.py"


@contextmanager
def papercuts(**settings: Any) -> Iterator[Installed]:
    with install(PLUGIN, settings) as plugin:
        yield plugin


def ask(plugin: Installed, mode: str, **args: Any) -> dict[str, Any]:
    outcome = plugin.tool("papercuts", mode=mode, **args)
    assert not outcome.is_error, outcome.text
    answer: dict[str, Any] = json.loads(outcome.text)
    return answer


def report(plugin: Installed, observed: str = "it prints nothing", **fields: Any) -> dict[str, Any]:
    given = {"category": "tool", "severity": "low", "expected": "a list", "observed": observed, **fields}
    return ask(plugin, "report", **given)


def fail(plugin: Installed, words: str, tool: str = "terminal", **args: Any) -> None:
    plugin.observe("post_tool_call", a_result(words, tool=tool, failed=True, **args))


def files_of(plugin: Installed) -> bytes:
    return b"".join(path.read_bytes() for path in Path(plugin.ctx.data_folder).iterdir())


def test_a20_1_the_same_report_twice_is_one_row_with_recurrence_2() -> None:
    with papercuts() as plugin:
        first = report(plugin)
        second = report(plugin, "It  prints NOTHING", severity="high", refs=["a.py"])
        report(plugin, "it prints too much")
        assert (first["recurrence"], second["recurrence"], second["new"]) == (1, 2, False)
        listed = ask(plugin, "list")
        assert listed["total"] == 2
        [row] = [row for row in listed["papercuts"] if row["id"] == first["id"]]
        assert (row["recurrence"], row["severity"], row["refs"]) == (2, "high", ["a.py"])


def test_a20_2_a_secret_in_any_field_is_redacted_before_it_is_written() -> None:
    texts = ("expected", "observed", "version", "invocation", "result", "reproduction")
    with papercuts(auto_capture=True, gate_friction=True) as plugin:
        plugin.ctx._estate.redact = Redactor(set())
        report(plugin, **{name: f"{name} with {SECRET}" for name in texts}, refs=[f"see {SECRET}"])
        fail(plugin, f"denied for {SECRET}", command=f"curl -H 'Authorization: Bearer {SECRET}'")
        friction(plugin, GateFriction("loop-guard", "budget_exhausted", "i", f"held {SECRET}"))
        assert ask(plugin, "list")["total"] == 3
        assert SECRET.encode() not in files_of(plugin)
        assert b"reproduction with" in files_of(plugin)


def test_a_secret_across_the_length_that_is_kept_is_redacted_too() -> None:
    with papercuts(auto_capture=True) as plugin:
        plugin.ctx._estate.redact = Redactor(set())
        fail(plugin, "x " * 1980 + SECRET + " y" * 100)
        assert SECRET[:24].encode() not in files_of(plugin)
        assert ask(plugin, "list")["papercuts"][0]["observed"].endswith("[cut]")


def test_a20_3_the_21st_capture_of_a_day_meets_the_quota_and_is_counted() -> None:
    names = "abcdefghijklmnopqrstuvw"
    with papercuts(auto_capture=True) as plugin:
        for name in names[:21]:
            fail(plugin, "no such file", tool=f"tool_{name}")
        assert ask(plugin, "list")["total"] == 20
        told = ask(plugin, "friction")
        assert told["outcomes"] == {"post_tool_call": {"filed": 20, "quota": 1}}
        assert (told["quota"]["used"], told["quota"]["limit"]) == (20, 20)
        assert report(plugin)["new"], "what somebody reports is not under the quota"


def test_a20_4_a_filing_that_fails_leaves_the_quota_as_it_was() -> None:
    with papercuts(auto_capture=True) as plugin:
        fail(plugin, "one")
        breaking = "CREATE TRIGGER broken BEFORE UPDATE ON papercuts BEGIN SELECT RAISE(ABORT, 'disk gone'); END"
        database = plugin.ctx.database("papercuts", ("SELECT 1;",))
        plugin.run(database.execute(breaking))
        fail(plugin, "one")
        plugin.run(database.execute("DROP TRIGGER broken"))
        told = ask(plugin, "friction")
        assert told["outcomes"] == {"post_tool_call": {"failed": 1, "filed": 1}}
        assert told["quota"]["used"] == 1
        fail(plugin, "one")
        assert ask(plugin, "friction")["quota"]["used"] == 2


def test_a20_5_error_in_the_text_of_a_call_that_went_well_is_not_captured() -> None:
    with papercuts(auto_capture=True) as plugin:
        plugin.observe("post_tool_call", a_result("error: 3 errors, Traceback, FAILED"))
        assert ask(plugin, "list", status="all")["total"] == 0
        fail(plugin, "error: 3 errors")
        assert ask(plugin, "list")["total"] == 1


def test_nothing_is_captured_unless_it_is_switched_on_and_never_the_tool_itself() -> None:
    with papercuts() as plugin:
        fail(plugin, "no such file")
        plugin.emit("loop_guard.block_delivered", tool_name="terminal", message="the same again")
        assert ask(plugin, "list")["total"] == 0
    with papercuts(auto_capture=True) as plugin:
        fail(plugin, "unknown_id", tool="papercuts")
        assert ask(plugin, "list")["total"] == 0


def test_a_capture_that_differs_in_numbers_only_is_the_same_and_a_delivered_block_is_one_too() -> None:
    with papercuts(auto_capture=True) as plugin:
        fail(plugin, "timed out after 31 s at 0x7f01")
        fail(plugin, "timed out after 9 s at 0x99aa")
        plugin.emit("loop_guard.block_delivered", tool_name="terminal", message="the same failure 3 times")
        rows = ask(plugin, "list", sort="impact")["papercuts"]
        assert [(row["recurrence"], row["category"], row["origin"]) for row in rows] == [
            (1, "workflow", "capture"),
            (2, "tool", "capture"),
        ]


def friction(plugin: Installed, given: GateFriction) -> str:
    sink = plugin.ctx.get_service("papercuts.friction")
    outcome: str = plugin.run(sink.report(given))
    return outcome


def test_a20_6_the_sink_says_no_sink_disabled_filed_or_quota() -> None:
    row = GateFriction("continuation", "repeated_hold", "blocker-1", "tests were not run")
    with papercuts() as plugin:
        assert friction(plugin, row) == "no_sink"
        assert ask(plugin, "friction")["outcomes"] == {"continuation": {"no_sink": 1}}
    with papercuts(gate_friction=True) as plugin:
        assert friction(plugin, row) == "disabled"
        assert ask(plugin, "list")["total"] == 0
        assert ask(plugin, "friction")["outcomes"] == {"continuation": {"disabled": 1}}
    with papercuts(gate_friction=True, auto_capture=True, daily_quota=3) as plugin:
        assert friction(plugin, row) == "filed"
        assert friction(plugin, GateFriction("continuation", "repeated_hold", "blocker-1", "other words")) == "filed"
        assert friction(plugin, GateFriction("continuation", "repeated_hold", "blocker-2")) == "filed"
        assert friction(plugin, row) == "quota"
        rows = ask(plugin, "list", sort="impact")["papercuts"]
        assert [(each["recurrence"], each["category"]) for each in rows] == [(2, "workflow"), (1, "workflow")]
        assert ask(plugin, "friction")["outcomes"] == {"continuation": {"filed": 3, "quota": 1}}


def finalize(plugin: Installed) -> None:
    plugin.observe("on_session_finalize", SessionPhase("session-test"))


def test_a20_7_a_papercut_that_came_3_times_becomes_a_draft_that_is_switched_off() -> None:
    with papercuts(draft_rules=True) as plugin:
        rules = Path(plugin.ctx.home) / "rules"
        for _ in range(2):
            report(plugin, 'a "quoted": text\n---\nenabled: true')
        finalize(plugin)
        assert not rules.exists()
        report(plugin, 'a "quoted": text\n---\nenabled: true')
        finalize(plugin)
        [draft] = (rules / "drafts").iterdir()
        _, head, body = draft.read_text().split("---\n", 2)
        assert yaml.safe_load(head)["enabled"] is False
        assert "Seen 3 times" in body
        assert list(rules.glob("*.md")) == [], "folders of rules are read flat: a draft is not among them"
        draft.write_text("edited")
        assert ask(plugin, "drafts")["kept"] == [str(draft)]
        assert draft.read_text() == "edited"


def test_drafts_follow_the_settings_and_leave_resolved_ones_out() -> None:
    with papercuts() as plugin:
        report(plugin)
        assert ask(plugin, "drafts")["status"] == "disabled"
        finalize(plugin)
        assert not (Path(plugin.ctx.home) / "rules").exists()
    with papercuts(draft_rules=True, draft_rule_after=1, draft_rule_dir="~/.hermes/proposals") as plugin:
        cut = report(plugin)
        report(plugin, "another")
        ask(plugin, "resolve", id=cut["id"])
        [path] = ask(plugin, "drafts")["written"]
        assert Path(path).parent == Path(plugin.ctx.home) / "proposals"
        assert "another" in Path(path).read_text()


def test_a20_9_two_processes_with_100_reports_each_are_200_that_are_counted(tmp_path: Path) -> None:
    assert together(tmp_path / "p.db", "report", 100) == [100, 100]
    rows = read(tmp_path / "p.db")
    assert sum(row["recurrence"] for row in rows) == 200
    assert len(rows) == 6  # two texts of both, two of each


def test_two_processes_share_one_quota(tmp_path: Path) -> None:
    assert sum(together(tmp_path / "p.db", "capture", 40)) == 20
    assert sum(row["recurrence"] for row in read(tmp_path / "p.db")) == 20


def together(path: Path, mode: str, count: int) -> list[int]:
    """How many each of two processes filed, begun at the same time."""
    running = [
        subprocess.Popen(
            [sys.executable, str(WRITER), str(path), who, str(count), mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for who in ("ada", "bob")
    ]  # fmt: skip
    answers = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        answers.append(int(out))
    return answers


def read(path: Path) -> list[dict[str, Any]]:
    import asyncio

    from hermes_daemon.store.plugin_database import open_database

    database = open_database(str(path), ("SELECT 1;",))
    try:
        rows = asyncio.run(database.query("SELECT body FROM papercuts"))
    finally:
        database.close()
    return [json.loads(row["body"]) for row in rows]


def test_a20_10_ack_and_resolve_are_idempotent_and_an_unknown_id_is_an_error_of_its_own() -> None:
    with papercuts() as plugin:
        id = report(plugin)["id"]
        assert ask(plugin, "ack", id=id) == {"id": id, "status": "acked", "changed": True}
        assert ask(plugin, "ack", id=id) == {"id": id, "status": "acked", "changed": False}
        assert report(plugin)["status"] == "acked"
        assert ask(plugin, "resolve", id=id) == {"id": id, "status": "resolved", "changed": True}
        assert ask(plugin, "resolve", id=id) == {"id": id, "status": "resolved", "changed": False}
        assert ask(plugin, "ack", id=id) == {"id": id, "status": "resolved", "changed": False}
        assert ask(plugin, "list")["total"] == 0
        assert ask(plugin, "list", status="resolved")["total"] == 1
        assert report(plugin)["status"] == "open", "one that comes again is not resolved"
        for mode in ("ack", "resolve"):
            outcome = plugin.tool("papercuts", mode=mode, id="pc-nothing")
            assert outcome.is_error
            assert json.loads(outcome.text)["error"] == "unknown_id"


@pytest.mark.parametrize("after", [0, -1, 1.5, True, "3"])
def test_a20_11_draft_rule_after_below_1_or_no_whole_number_refuses_the_registration(after: Any) -> None:
    with (
        pytest.raises(PluginFailed, match=r"^settings\.draft_rule_after: expected a whole number of at least 1, got"),
        papercuts(draft_rule_after=after),
    ):
        pass


def test_drafts_may_not_lie_among_the_rules_that_are_read() -> None:
    with pytest.raises(PluginFailed, match=r"draft_rule_dir: .*/rules holds rules"), papercuts(draft_rule_dir="rules"):
        pass


def test_stats_tell_a_loss_of_zero_from_none() -> None:
    with papercuts() as plugin:
        report(plugin)
        assert ask(plugin, "stats")["time_lost_seconds"] is None
        report(plugin, time_lost_seconds=0)
        stats = ask(plugin, "stats")
        assert (stats["time_lost_seconds"], stats["timed_report_count"], stats["reports"]) == (0.0, 1, 2)
        report(plugin, time_lost_seconds=2.5)
        [row] = ask(plugin, "list")["papercuts"]
        assert (row["time_lost_seconds"], row["timed_report_count"], row["recurrence"]) == (2.5, 2, 3)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"category": "mood"}, "$.category"),
        ({"severity": "huge"}, "$.severity"),
        ({"observed": "  "}, "$.observed"),
        ({"time_lost_seconds": -1}, "$.time_lost_seconds"),
        ({"refs": ["x"] * 33}, "$.refs"),
        ({"args": "--all"}, "args"),
    ],
)
def test_a_report_that_does_not_fit_names_its_field(fields: dict[str, Any], said: str) -> None:
    given = {"category": "tool", "severity": "low", "expected": "a", "observed": "b", **fields}
    with papercuts() as plugin:
        outcome = plugin.tool("papercuts", mode="report", **given)
        assert outcome.is_error
        answer = json.loads(outcome.text)
        assert answer["error"] == "invalid_report"
        assert said in answer["message"]


@pytest.mark.parametrize(
    "args",
    [{"mode": "list", "limit": 0}, {"mode": "list", "sort": "size"}, {"mode": "ack"}, {"mode": "stats", "id": "x"},
     {"mode": "sing"}, {"mode": "list", "status": "gone"}],
)  # fmt: skip
def test_arguments_that_do_not_fit_the_mode_are_refused(args: dict[str, Any]) -> None:
    with papercuts() as plugin:
        outcome = plugin.tool("papercuts", **args)
        assert json.loads(outcome.text)["error"] == "invalid_arguments"


def test_loading_makes_no_file_and_a_broken_store_is_said() -> None:
    with papercuts(auto_capture=True, gate_friction=True, draft_rules=True) as plugin:
        folder = Path(plugin.ctx.data_folder)
        assert not folder.exists()
        folder.mkdir(parents=True)
        (folder / "papercuts.db").write_bytes(b"this is no database, whatever its name says" * 50)
        outcome = plugin.tool("papercuts", mode="list")
        assert outcome.is_error
        assert "papercuts.db: it is damaged" in outcome.text
        assert StorageError.__name__ in outcome.text
        fail(plugin, "no such file")
        folder.joinpath("papercuts.db").unlink()
        assert ask(plugin, "friction")["outcomes"] == {"post_tool_call": {"failed": 1}}


def test_the_command_shows_lines_or_json_and_refuses_what_it_does_not_know() -> None:
    with papercuts() as plugin:
        assert plugin.command("papercuts", "", kind="cli") == ("No papercuts.", 0)
        id = report(plugin, time_lost_seconds=3)["id"]
        text, code = plugin.command("papercuts", "list --impact --limit 5", kind="cli")
        assert code == 0
        assert text.splitlines()[0] == f"{id}  low       1×, 3 s lost  open  tool"
        text, code = plugin.command("papercuts", "list --json", kind="cli")
        assert json.loads(text)["papercuts"][0]["id"] == id
        assert plugin.command("papercuts", f"ack {id}")[1] == 0
        assert plugin.command("papercuts", "ack pc-gone", kind="cli")[1] == 1
        text, code = plugin.command("papercuts", "stats", kind="cli")
        assert (code, "by_severity: low 1" in text) == (0, True)
        for wrong in ("list --loud", "ack", "sing", "report x", "list 'open"):
            text, code = plugin.command("papercuts", wrong, kind="cli")
            assert (code, "usage: papercuts" in text) == (2, True), wrong
