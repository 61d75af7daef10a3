import asyncio
from pathlib import Path

import pytest

from hermes_daemon.core.ports import Refused, Rejected, ToolContext, ToolOutcome
from hermes_daemon.tools.builtin import builtin_tools
from hermes_daemon.tools.registry import FunctionTool, Registry
from tests.support.tool_context import Context


def tool_that(error: Exception | None) -> FunctionTool:
    async def act(ctx: ToolContext, name: str) -> ToolOutcome:
        if error is not None:
            raise error
        return ToolOutcome(f"did {name}")

    return FunctionTool(act, title=lambda args: f"Act on\n{args['name']}", toolset="x")


def outcome(error: Exception | None, tmp_path: Path) -> ToolOutcome:
    return asyncio.run(tool_that(error).run({"name": "it"}, Context(tmp_path)))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Refused("No.", "Ask."), "Refused: No. Ask."),
        (Rejected("expected x", "$.name"), "Error: $.name: expected x"),
        (OSError(28, "No space left on device", "/x"), "Error: No space left on device: /x"),
    ],
)
def test_what_a_tool_refuses_is_an_outcome(error: Exception, text: str, tmp_path: Path) -> None:
    assert outcome(error, tmp_path) == ToolOutcome(text, is_error=True)


def test_a_bug_passes_through(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        outcome(ZeroDivisionError(), tmp_path)


def test_a_title_is_one_line_also_for_arguments_that_do_not_fit() -> None:
    assert tool_that(None).title({"name": "it"}) == "Act on it"
    assert tool_that(None).title({}) == "act"
    assert len(tool_that(None).title({"name": "x" * 500})) == 160


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="act"):
        Registry([tool_that(None), tool_that(None)])


def test_the_builtin_tools_are_the_six_and_half_of_them_only_read() -> None:
    tools = builtin_tools().all()
    names = ["terminal", "read_file", "write_file", "patch", "search_files", "clarify"]
    assert [tool.card.name for tool in tools] == names
    assert [tool.card.name for tool in tools if tool.card.read_only] == ["read_file", "search_files", "clarify"]
    assert builtin_tools().get("terminal") is not None
    assert builtin_tools().get("nothing") is None
