"""Prism's (value, next) and Hermes' keywords, as links."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hermes_daemon.core.ports import Reply, Request, ToolOutcome, ToolSpec
from hermes_daemon.middleware.payloads import Operation, PointContext, ToolDone, TurnContext
from hermes_daemon.middleware.registry import Link, Registry, Shape
from hermes_daemon.middleware.styles import Step, around, decide, observe, transform
from hermes_protocol.content import Message, TextPart

CONTEXT = PointContext(session_id="s", turn_id="t", round=2, model="m", provider="p", api_request_id="a")
REQUEST = Request(
    "m",
    "be kind",
    (Message("user", (TextPart("hello"),)),),
    (ToolSpec("terminal", "runs", {"type": "object"}),),
    temperature=0.5,
)


class Chain:
    """A point with callables of one shape; `failures` are what was reported, `steps` what happened."""

    def __init__(self, point: str, shape: Shape, *calls: Callable[..., Any]) -> None:
        registry = Registry()
        for index, call in enumerate(calls):
            registry.use(point, call, owner=f"p{index}", shape=shape)
        self.links = registry.snapshot(registry.rows()[0].point)
        self.failures: list[BaseException] = []
        self.steps: list[Step] = []

    def report(self, _: Link, error: BaseException) -> None:
        self.failures.append(error)

    def fold(self, value: Any, context: Any = CONTEXT) -> Any:
        return asyncio.run(transform(self.links, value, context, self.report, self.steps))


# --- Prism ------------------------------------------------------------------------------------------------------------


def test_next_commits_a_value_and_gives_it_back() -> None:
    async def first(value: str, following: Any) -> Any:
        seen = await following(value + "1")
        assert seen == "a1"
        return seen

    def second(value: str, following: Any) -> Any:
        return following(value + "2")

    async def third(value: str, following: Any) -> Any:
        return following(value + "3")

    chain = Chain("output", "prism", first, second, third)
    assert chain.fold("a") == "a123"
    assert chain.failures == []


def test_returning_a_value_without_next_is_the_new_value_and_nothing_is_no_change() -> None:
    chain = Chain("output", "prism", lambda value, following: value + "!", lambda value, following: None)
    assert chain.fold("a") == "a!"


def test_next_works_once_and_the_first_value_stays() -> None:
    def twice(value: str, following: Any) -> Any:
        following("first")
        return following("second")

    chain = Chain("output", "prism", twice, lambda value, following: value + "!")
    assert chain.fold("a") == "first!"
    assert "next was called twice at output[0]" in str(chain.failures[0])


def test_a_value_beside_next_is_a_conflict_that_next_wins() -> None:
    def both(value: str, following: Any) -> str:
        following("next")
        return "returned"

    chain = Chain("output", "prism", both)
    assert chain.fold("a") == "next"
    assert [step.outcome for step in chain.steps] == ["conflicted"]
    assert len(chain.failures) == 1


def test_a_value_committed_before_a_throw_stays() -> None:
    def throws(value: str, following: Any) -> str:
        following("committed")
        raise ValueError("after")

    chain = Chain("output", "prism", throws, lambda value, following: value + "!")
    assert chain.fold("a") == "committed!"


def test_prism_is_for_folds_only() -> None:
    with pytest.raises(ValueError, match="tool_execution is no point for prism callables"):
        Registry().use("tool_execution", lambda value, following: value, owner="a", shape="prism")


# --- Hermes -----------------------------------------------------------------------------------------------------------


def test_a_request_callable_gets_the_request_as_a_dict_and_replaces_it() -> None:
    seen: dict[str, Any] = {}

    def tag(**kwargs: Any) -> dict[str, Any]:
        seen.update(kwargs)
        request = dict(kwargs["request"])
        request["extra_body"] = {"metadata": {"demo": True}}
        return {"request": request, "source": "demo", "reason": "tagged"}

    chain = Chain("llm_request", "hermes", tag)
    changed = chain.fold(REQUEST)
    assert changed.extra_body == {"metadata": {"demo": True}}
    assert changed.messages is REQUEST.messages
    assert seen["request"]["messages"][0] == {"role": "system", "content": "be kind"}
    assert seen["request"]["tools"][0]["function"]["name"] == "terminal"
    assert (seen["session_id"], seen["turn_id"], seen["api_call_count"]) == ("s", "t", 2)
    assert seen["telemetry_schema_version"] == "hermes.observer.v1"
    assert seen["middleware_schema_version"] == "hermes.middleware.v1"
    assert chain.steps[0].told() == {"source": "demo", "reason": "tagged"}


def test_request_callables_see_what_their_predecessors_made_and_what_there_was() -> None:
    def warm(**kwargs: Any) -> dict[str, Any]:
        return {"request": {**kwargs["request"], "temperature": 0.9}}

    def note(**kwargs: Any) -> dict[str, Any]:
        text = f"{kwargs['original_request']['temperature']} became {kwargs['request']['temperature']}"
        messages = [*kwargs["request"]["messages"], {"role": "user", "content": text}]
        return {"request": {**kwargs["request"], "messages": messages}}

    changed = Chain("llm_request", "hermes", warm, note).fold(REQUEST)
    assert changed.temperature == 0.9
    assert [message.text for message in changed.messages] == ["hello", "0.5 became 0.9"]
    assert changed.messages[0] is REQUEST.messages[0]


@pytest.mark.parametrize("returned", [None, "text", [], {}, {"request": "no dict"}, {"args": {}}])
def test_what_is_no_replacement_is_no_change(returned: Any) -> None:
    chain = Chain("llm_request", "hermes", lambda **_: returned)
    assert chain.fold(REQUEST) is REQUEST
    assert chain.failures == []


def test_a_callable_gets_the_keywords_it_declares() -> None:
    def narrow(tool_name: str, args: dict[str, Any]) -> dict[str, Any]:
        return {"args": {**args, "workdir": "/w"}} if tool_name == "terminal" else {}

    changed = Chain("tool_request", "hermes", narrow).fold(Operation("c", "terminal", {"command": "ls"}))
    assert changed == Operation("c", "terminal", {"command": "ls", "workdir": "/w"})


def test_a_replacement_that_is_no_request_is_a_failure_that_names_the_key() -> None:
    chain = Chain("llm_request", "hermes", lambda **kwargs: {"request": {**kwargs["request"], "messages": "all"}})
    assert chain.fold(REQUEST) is REQUEST
    assert str(chain.failures[0]) == "request.messages: expected a list, got str"


def test_an_execution_callable_wraps_a_tool_and_keeps_its_whole_outcome() -> None:
    outcome = ToolOutcome("out", exit_code=3)
    given: list[dict[str, Any]] = []

    def annotate(**kwargs: Any) -> Any:
        return kwargs["next_call"]({**kwargs["args"], "extra": 1})

    async def call(operation: Operation) -> ToolOutcome:
        given.append(operation.args)
        return outcome

    chain = Chain("tool_execution", "hermes", annotate)
    operation = Operation("c", "terminal", {"command": "ls"})
    assert asyncio.run(around(chain.links, operation, CONTEXT, call, chain.report)) is outcome
    assert given == [{"command": "ls", "extra": 1}]


def test_an_execution_callable_may_give_text_or_a_structure_as_a_tools_result() -> None:
    async def call(operation: Operation) -> ToolOutcome:
        return ToolOutcome("out")

    for returned, text in (("mine", "mine"), ({"ok": True}, '{"ok":true}')):
        chain = Chain("tool_execution", "hermes", lambda returned=returned, **_: returned)
        result = asyncio.run(around(chain.links, Operation("c", "t", {}), CONTEXT, call, chain.report))
        assert result == ToolOutcome(text)


def test_an_execution_callable_times_a_model_call_and_hands_its_reply_on() -> None:
    reply = Reply(Message("assistant", (TextPart("hi"),)), "stop")

    def timed(**kwargs: Any) -> Any:
        return kwargs["next_call"](kwargs["request"])

    async def call(request: Request) -> Reply:
        assert request == REQUEST
        return reply

    chain = Chain("llm_execution", "hermes", timed)
    assert asyncio.run(around(chain.links, REQUEST, CONTEXT, call, chain.report)) is reply


# --- hooks ------------------------------------------------------------------------------------------------------------


def done(**fields: Any) -> ToolDone:
    return ToolDone("terminal", {"command": "ls", "api_key": "sk"}, "out", "ok", ToolOutcome("out"), **fields)


def test_an_observer_gets_the_payload_without_secrets() -> None:
    seen: dict[str, Any] = {}
    chain = Chain("post_tool_call", "hook", lambda **kwargs: seen.update(kwargs))
    asyncio.run(observe(chain.links, done(duration_ms=7), CONTEXT, chain.report))
    assert (seen["tool_name"], seen["result"], seen["status"], seen["duration_ms"]) == ("terminal", "out", "ok", 7)
    assert seen["args"] == {"command": "ls", "api_key": "[REDACTED]"}
    assert "outcome" not in seen


def test_a_policy_hook_speaks_in_dicts() -> None:
    chain = Chain("pre_tool_call", "hook", lambda tool_name: {"action": "block", "message": f"no {tool_name}"})
    decision = asyncio.run(decide(chain.links, Operation("c", "rm", {}), CONTEXT, chain.report))
    assert decision is not None
    assert (decision.action, decision.message) == ("block", "no rm")


def test_a_block_without_a_reason_blocks_and_is_reported() -> None:
    chain = Chain("pre_tool_call", "hook", lambda **_: {"action": "block"})
    decision = asyncio.run(decide(chain.links, Operation("c", "rm", {}), CONTEXT, chain.report))
    assert decision is not None
    assert decision.action == "block"
    assert "a block needs a message" in str(chain.failures[0])


def test_at_the_end_of_a_turn_block_means_go_on() -> None:
    chain = Chain("pre_verify", "hook", lambda **_: {"decision": "block", "reason": "run the tests"})
    decision = asyncio.run(decide(chain.links, "draft", CONTEXT, chain.report))
    assert decision is not None
    assert (decision.action, decision.message) == ("continue", "run the tests")


def test_transforming_hooks_give_text() -> None:
    chain = Chain("transform_tool_result", "hook", lambda result: result.upper(), lambda **_: None)
    assert chain.fold(done()).result == "OUT"
    chain = Chain("pre_llm_call", "hook", lambda **_: "one", lambda **_: {"context": "two"}, lambda **_: "  ")
    assert chain.fold(TurnContext("hi", True)).contexts == ("one", "two")
    chain = Chain("transform_llm_output", "hook", lambda response_text: response_text + "!", lambda **_: "")
    assert chain.fold("answer") == "answer!"
