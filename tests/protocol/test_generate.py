import re
from pathlib import Path

import pytest

from hermes_protocol.errors import CODES
from hermes_protocol.events import KINDS
from hermes_protocol.methods import DAEMON_NOTIFICATIONS, METHODS, NOTIFICATIONS
from protocol import generate

PAGE = (generate.ROOT / "docs/protocol.md").read_text(encoding="utf-8")


def test_the_generated_files_are_what_the_types_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.write(generate.outputs(), generate.ROOT, ["--check"], None) == 0, capsys.readouterr().out


def test_check_shows_the_difference_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"docs/page.md": "new\n"}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text("old\n")
    assert generate.write(files, tmp_path, ["--check"], None) == 1
    assert "-old\n+new\n" in capsys.readouterr().out
    assert (tmp_path / "docs/page.md").read_text() == "old\n"
    assert generate.write(files, tmp_path, [], None) == 0
    assert generate.write(files, tmp_path, ["--check"], None) == 0


def test_every_method_notification_event_and_error_has_its_place_on_the_page_and_the_reverse() -> None:
    headings = set(re.findall(r"^### (\S+)$", PAGE, re.MULTILINE))
    named = {"initialize", "shutdown", "hermes/event", *METHODS, *NOTIFICATIONS, *DAEMON_NOTIFICATIONS, *KINDS}
    assert named <= headings
    assert {heading for heading in headings if "/" in heading or "." in heading} <= named
    assert set(re.findall(r"^\| (\w+) \| -\d+ \|", PAGE, re.MULTILINE)) == set(CODES)


def test_every_link_on_the_page_leads_to_a_heading() -> None:
    headings = re.findall(r"^###? (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors
