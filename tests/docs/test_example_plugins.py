"""Every plugin of docs/examples/plugins, loaded as its reader would load it and exercised without a daemon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from docs.generate import ROOT
from hermes_daemon.api import Request
from hermes_daemon.api.testing import PluginFailed, a_call, a_question, a_request, a_result, install
from hermes_daemon.core.ports import Reply, ToolOutcome
from hermes_daemon.plugins.validating import Finding, findings
from hermes_protocol.content import Message, TextPart

EXAMPLES = ROOT / "docs/examples/plugins"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/plugin.yaml"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_example_is_valid_and_named_in_the_howto(folder: Path) -> None:
    found: Sequence[Finding] = findings(str(folder), lambda name: None)
    assert found == ()
    assert f"examples/plugins/{folder.name}/plugin.py" in (ROOT / "docs/howto/plugins.md").read_text(encoding="utf-8")


def test_requests_are_tagged_and_what_they_had_stays() -> None:
    with install(EXAMPLES / "tag_requests", {"tag": "shop"}) as plugin:
        before = a_request("hello", extra_body={"metadata": {"user": "u1"}})
        sent: Request = plugin.fold("llm_request", before)
        assert sent.extra_body == {"metadata": {"user": "u1", "tag": "shop", "session": "session-test"}}
        assert sent.messages == before.messages
    with pytest.raises(PluginFailed, match="tag: is required: text"), install(EXAMPLES / "tag_requests"):
        pass


@pytest.mark.parametrize(
    ("wanted", "inside"),
    [(None, ""), ("below", "below"), ("..", ""), ("/", ""), ("below/../../other", "")],
)
def test_the_working_folder_is_kept_inside(tmp_path: Path, wanted: str | None, inside: str) -> None:
    args = {"command": "ls"} | ({} if wanted is None else {"workdir": wanted})
    with install(EXAMPLES / "keep_workdir", {"root": str(tmp_path)}) as plugin:
        changed = plugin.fold("tool_request", a_call("terminal", **args))
        assert changed.args == {"command": "ls", "workdir": str((tmp_path / inside).resolve())}
        other = a_call("read_file", path="/etc/hosts")
        assert plugin.fold("tool_request", other) == other


def test_model_calls_are_timed_also_those_that_fail() -> None:
    def failing(request: Request) -> Reply:
        raise ConnectionError("down")

    reply = Reply(Message("assistant", (TextPart("hi"),)), "stop")
    with install(EXAMPLES / "time_models") as plugin:
        assert plugin.command("times") == "no model was called yet"
        assert plugin.around("llm_execution", a_request(), lambda request: reply, model="m") == reply
        with pytest.raises(ConnectionError, match="down"):
            plugin.around("llm_execution", a_request(), failing, model="m")
        assert plugin.command("times").startswith("m: 2 calls, ")


def test_results_of_commands_are_annotated_and_others_are_not() -> None:
    with install(EXAMPLES / "annotate_results") as plugin:
        done = plugin.around("tool_execution", a_call("terminal"), lambda call: ToolOutcome("out", exit_code=0))
        assert done.text.startswith("out\n[terminal took 0.")
        plain = ToolOutcome("text")
        assert plugin.around("tool_execution", a_call("read_file"), lambda call: plain) == plain


def test_transform_a_text_is_quieted() -> None:
    with install(EXAMPLES / "quiet_output") as plugin:
        assert plugin.fold("output", "Done! All of it!") == "Done. All of it."
        assert plugin.fold("output", "Done.") == "Done."


def test_around_commands_run_one_after_the_other() -> None:
    running: list[int] = []

    async def run(call: Any) -> ToolOutcome:
        running.append(1)
        assert len(running) == 1
        running.pop()
        return ToolOutcome(call.args["command"])

    with install(EXAMPLES / "one_at_a_time") as plugin:
        texts = [plugin.around("tool_execution", a_call("terminal", command=each), run).text for each in ("a", "b")]
        assert texts == ["a", "b"]


@pytest.mark.parametrize("path", [".env", "keys/server.pem", "a/b/x.key"])
def test_decide_protected_files_are_not_written(path: str) -> None:
    with install(EXAMPLES / "protect_files") as plugin:
        decision = plugin.decide("pre_tool_call", a_call("write_file", path=path, content=""))
        assert decision is not None
        assert decision.action == "block"
        assert plugin.decide("pre_tool_call", a_call("write_file", path="a.py", content="")) is None
        assert plugin.decide("pre_tool_call", a_call("read_file", path=path)) is None


def test_observe_calls_are_counted_and_told_by_a_command_of_hermes() -> None:
    with install(EXAMPLES / "count_tools") as plugin:
        assert plugin.command("tool-counts", kind="cli") == ("no tool was called yet", 1)
        for failed in (False, True, False):
            plugin.observe("post_tool_call", a_result(tool="terminal", failed=failed))
        assert plugin.command("tool-counts", kind="cli") == ("terminal/error 1\nterminal/ok 2", 0)


def test_a_known_question_is_answered_without_a_model() -> None:
    with install(EXAMPLES / "office_hours") as plugin:
        answered = plugin.fold("turn.answer", a_question("When is the office open? "))
        assert answered.answer is not None
        assert answered.answer.content == ({"type": "text", "text": "From nine to five."},)
        assert answered.answer.middleware == "office-hours"
        assert plugin.fold("turn.answer", a_question("Why?")) == a_question("Why?")
