import re

import msgspec
import yaml

from docs import generate
from hermes_daemon.core.danger_rows import ROWS
from hermes_daemon.core.decision import judge
from hermes_daemon.core.ports import ToolCard
from hermes_daemon.core.settings import ApprovalSettings
from hermes_daemon.tools.builtin import builtin_tools

TOOLS = (generate.ROOT / "docs/reference/tools.md").read_text(encoding="utf-8")
APPROVALS = (generate.ROOT / "docs/howto/approvals.md").read_text(encoding="utf-8")


def test_every_tool_has_its_section_with_exactly_its_arguments() -> None:
    sections = dict(re.findall(r"^## ([a-z_]+)\n(.*?)(?=^## |\Z)", TOOLS, re.MULTILINE | re.DOTALL))
    cards = {tool.card.name: tool.card for tool in builtin_tools().all()}
    assert set(sections) == set(cards)
    for name, text in sections.items():
        rows = [re.findall(r"`([a-z_]+)`", row) for row in re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)]
        assert [argument for row in rows for argument in row] == list(cards[name].parameters["properties"])


def test_every_setting_the_pages_name_exists() -> None:
    keys = set(generate.setting_keys())
    named = re.findall(r"`((?:tools|tool_output|terminal|approvals)\.[a-z_]+)`", TOOLS + APPROVALS)
    assert named
    assert set(named) <= keys


def test_the_example_of_rules_is_a_valid_one_and_does_what_the_page_says() -> None:
    example = re.search(r"```yaml\n(.*?)```", APPROVALS, re.DOTALL)
    assert example is not None
    settings = msgspec.convert(yaml.safe_load(example[1])["approvals"], ApprovalSettings)
    terminal = ToolCard("terminal", "terminal", "", {}, kind="execute")

    def kind(command: str) -> str:
        args = {"command": command}
        return judge(terminal, args, settings=settings, mode="manual", grants=frozenset(), cwd="/p").kind

    assert kind("git status -s") == "allow"
    assert kind("git status; rm x") == "ask"
    assert kind("cd x && git push origin") == "deny"


def test_the_page_does_not_promise_more_kinds_of_danger_than_there_are() -> None:
    assert "some thirty more" in APPROVALS
    assert len({danger.key for danger, _ in ROWS}) >= 30
