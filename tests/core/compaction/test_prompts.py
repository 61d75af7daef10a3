from __future__ import annotations

from hermes_daemon.core.compaction.prompts import SECTIONS, prompt


def test_each_task_has_instructions_of_its_own() -> None:
    asked = {task: prompt(task, "old", "new", 1_000).system for task in ("merge", "batch", "defrag")}  # type: ignore[arg-type]
    assert len(set(asked.values())) == 3
    assert "shorter" in asked["defrag"]
    assert all(section in asked["batch"] for section in SECTIONS)


def test_every_task_asks_for_redaction() -> None:
    assert all("[REDACTED]" in prompt(task, "a", "b", 100).system for task in ("merge", "batch", "defrag"))


def test_focus_and_date_are_told_when_they_are_known() -> None:
    plain = prompt("batch", "", "new", 1_000)
    told = prompt("batch", "", "new", 1_000, focus="the parser", date="2031-04-02")
    assert "the parser" in told.system
    assert "2031-04-02" in told.system
    assert "Today" not in plain.system
    assert told.user == plain.user


def test_the_material_holds_what_there_is() -> None:
    assert "<summary>" not in prompt("batch", "", "new", 100).user
    assert "(nothing yet)" in prompt("merge", "", "new", 100).user
    assert "<session>" not in prompt("defrag", "old", "", 100).user
