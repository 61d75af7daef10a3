"""The four styles, and what happens when a link fails."""

import asyncio
from typing import Any

import pytest

from hermes_daemon.middleware.registry import Link, Registry
from hermes_daemon.middleware.styles import (
    Directive,
    ExecutionBlocked,
    MiddlewareError,
    Step,
    around,
    decide,
    observe,
    transform,
)

reports: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    reports.clear()


def report(link: Link, error: BaseException) -> None:
    reports.append(f"{link.owner}: {error}")


def links(point: str, *calls: Any) -> tuple[Link, ...]:
    registry = Registry()
    for index, call in enumerate(calls):
        registry.use(point, call, owner=f"p{index}")
    return registry.snapshot(point)


async def boom(*_: Any) -> None:
    raise ValueError("boom")


def test_nothing_registered_gives_back_the_very_same_object() -> None:
    value = {"a": 1}
    assert asyncio.run(transform((), value, None, report)) is value


def test_a_transform_sees_its_predecessors_value_and_none_changes_nothing() -> None:
    async def add(value: list[int], _: Any) -> list[int]:
        return [*value, len(value)]

    def nothing(value: list[int], _: Any) -> None:
        return None

    chain = links("messages", add, nothing, boom, add)
    assert asyncio.run(transform(chain, [], None, report)) == [0, 1]
    assert reports == ["p2: boom"]


def test_an_onion_runs_outermost_first_around_the_call() -> None:
    trail: list[str] = []

    def wrap(name: str) -> Any:
        async def link(payload: str, following: Any, _: Any) -> str:
            trail.append(f"{name} in")
            result: str = await following(payload + name)
            trail.append(f"{name} out")
            return result + name

        return link

    async def call(payload: str) -> str:
        trail.append(payload)
        return "r"

    assert asyncio.run(around(links("tool_execution", wrap("a"), wrap("b")), "p", None, call, report)) == "rba"
    assert trail == ["a in", "b in", "pab", "b out", "a out"]


def test_a_link_that_fails_before_next_is_skipped_and_after_next_keeps_the_result() -> None:
    calls: list[str] = []

    async def call(payload: str) -> str:
        calls.append(payload)
        return "result"

    async def after(payload: str, following: Any, _: Any) -> str:
        await following()
        raise ValueError("late")

    async def forgets(payload: str, following: Any, _: Any) -> None:
        await following()

    assert asyncio.run(around(links("tool_execution", boom, after, forgets), "p", None, call, report)) == "result"
    assert calls == ["p"]
    assert reports == ["p0: boom", "p2: it called next and returned nothing", "p1: late"]


def test_the_failure_of_the_call_itself_passes_through_and_a_veto_stops() -> None:
    async def passes(payload: str, following: Any, _: Any) -> Any:
        return await following()

    async def fails(_: str) -> None:
        raise OSError("down")

    async def veto(*_: Any) -> None:
        raise ExecutionBlocked("no")

    with pytest.raises(OSError, match="down"):
        asyncio.run(around(links("llm_execution", passes), "p", None, fails, report))
    with pytest.raises(ExecutionBlocked, match="no"):
        asyncio.run(around(links("llm_execution", passes, veto), "p", None, fails, report))


def test_next_works_once() -> None:
    async def twice(payload: str, following: Any, _: Any) -> Any:
        await following()
        return await following()

    async def call(_: str) -> str:
        return "once"

    assert asyncio.run(around(links("llm_execution", twice), "p", None, call, report)) == "once"
    assert "twice" in reports[0]


def test_block_beats_approve_whatever_the_order_and_a_failing_policy_blocks() -> None:
    async def approve(*_: Any) -> Directive:
        return Directive("approve")

    async def block(*_: Any) -> Directive:
        return Directive("block", "never")

    async def modify(*_: Any) -> Directive:
        return Directive("modify", fields={"a": 2})

    verdict = asyncio.run(decide(links("pre_tool_call", approve, block, modify), {}, None, report))
    assert verdict is not None
    assert (verdict.action, verdict.message) == ("block", "never")
    failed = asyncio.run(decide(links("pre_tool_call", boom), {}, None, report))
    assert failed is not None
    assert failed.action == "block"
    assert asyncio.run(decide(links("pre_verify", boom), {}, None, report)) is None


def test_observers_are_told_and_their_failures_reported() -> None:
    seen: list[str] = []
    asyncio.run(observe(links("post_tool_call", boom, lambda payload, _: seen.append(payload)), "x", None, report))
    assert seen == ["x"]
    assert reports == ["p0: boom"]


def test_on_error_throw_fails_the_run_with_point_and_owner() -> None:
    registry = Registry()
    registry.use("messages", boom, owner="privacy", on_error="throw")
    with pytest.raises(MiddlewareError, match=r"privacy failed at messages\[0\]: boom"):
        asyncio.run(transform(registry.snapshot("messages"), 1, None, report))


def test_a_failure_below_arrives_as_the_object_it_is_and_never_becomes_nothing() -> None:
    original = KeyError("provider")
    seen: list[BaseException] = []
    calls: list[str] = []

    async def call(payload: str) -> str:
        calls.append(payload)
        raise original

    async def swallows(payload: str, following: Any, _: Any) -> None:
        try:
            await following()
        except KeyError as error:
            seen.append(error)

    with pytest.raises(KeyError) as raised:
        asyncio.run(around(links("tool_execution", swallows), "p", None, call, report))
    assert raised.value is original
    assert seen == [original]
    assert calls == ["p"]


def test_a_link_may_make_something_else_of_a_failure_below() -> None:
    async def call(payload: str) -> str:
        raise KeyError(payload)

    async def translates(payload: str, following: Any, _: Any) -> str:
        try:
            return str(await following())
        except KeyError:
            return "instead"

    async def renames(payload: str, following: Any, _: Any) -> str:
        try:
            return str(await following())
        except KeyError as error:
            raise LookupError("another name") from error

    assert asyncio.run(around(links("tool_execution", translates), "p", None, call, report)) == "instead"
    with pytest.raises(LookupError, match="another name"):
        asyncio.run(around(links("tool_execution", renames), "p", None, call, report))
    assert reports == ["p0: 'another name'"] or reports == ["p0: another name"]


def test_next_works_once_and_not_after_the_end() -> None:
    kept: list[Any] = []
    calls: list[str] = []

    async def call(payload: str) -> str:
        calls.append(payload)
        return "r"

    async def twice(payload: str, following: Any, _: Any) -> Any:
        kept.append(following)
        await following()
        return await following("again")

    async def run() -> None:
        assert await around(links("tool_execution", twice), "p", None, call, report) == "r"
        with pytest.raises(RuntimeError, match="after it was over"):
            await kept[0]()

    asyncio.run(run())
    assert calls == ["p"]
    assert "next was called twice" in reports[0]


def test_throw_keeps_a_result_that_is_there_and_stops_where_there_is_none() -> None:
    async def call(payload: str) -> str:
        return "r"

    async def late(payload: str, following: Any, _: Any) -> None:
        await following()
        raise ValueError("late")

    registry = Registry()
    registry.use("tool_execution", late, owner="late", on_error="throw")
    assert asyncio.run(around(registry.snapshot("tool_execution"), "p", None, call, report)) == "r"
    only = Registry()
    only.use("tool_execution", boom, owner="early", on_error="throw")
    with pytest.raises(MiddlewareError, match=r"early failed at tool_execution\[0\]: boom"):
        asyncio.run(around(only.snapshot("tool_execution"), "p", None, call, report))


def test_a_link_in_a_thread_goes_on_by_the_same_next() -> None:
    def link(payload: str, following: Any, _: Any) -> str:
        return f"<{following(payload + '!')}>"

    async def call(payload: str) -> str:
        return payload

    assert asyncio.run(around(links("tool_execution", link, link), "p", None, call, report)) == "<<p!!>>"


def test_a_veto_is_no_failure() -> None:
    async def veto(payload: str, following: Any, _: Any) -> None:
        raise ExecutionBlocked("not here")

    async def call(payload: str) -> str:
        raise AssertionError

    steps: list[Step] = []
    with pytest.raises(ExecutionBlocked, match="not here"):
        asyncio.run(around(links("tool_execution", veto), "p", None, call, report, steps))
    assert [step.outcome for step in steps] == ["short_circuited"]
    assert reports == []


def test_what_a_link_does_to_its_copy_stays_with_it() -> None:
    def spoils(value: dict[str, Any], _: Any) -> None:
        value["inner"]["list"].append("mine")

    value = {"inner": {"list": [1]}}
    assert asyncio.run(transform(links("compaction", spoils), value, None, report)) is value
    assert value == {"inner": {"list": [1]}}


def test_a_value_of_another_type_is_a_failure_and_the_chain_goes_on_with_the_last_good_one() -> None:
    def wrong(value: str, _: Any) -> int:
        return 3

    def right(value: str, _: Any) -> str:
        return value + "!"

    steps: list[Step] = []
    assert asyncio.run(transform(links("output", right, wrong, right), "a", None, report, steps)) == "a!!"
    assert [step.outcome for step in steps] == ["committed", "failed", "committed"]
    assert reports == ["p1: expected str, got int"]


def test_a_check_may_correct_or_refuse_what_a_link_gives() -> None:
    def add(value: str, _: Any) -> str:
        return value + "x"

    def shortened(before: str, after: str) -> str:
        if len(after) > 2:
            raise ValueError("too long")
        return after.upper()

    assert asyncio.run(transform(links("output", add, add), "a", None, report, check=shortened)) == "AX"
    assert reports == ["p1: too long"]


def test_a_hanging_observer_costs_its_time_once_and_is_then_left_out() -> None:
    calls: list[int] = []

    async def hangs(*_: Any) -> None:
        calls.append(1)
        await asyncio.Event().wait()

    async def quick(*_: Any) -> None:
        calls.append(2)

    registry = Registry()
    registry.use("post_tool_call", hangs, owner="slow", timeout_s=0.01)
    registry.use("post_tool_call", quick, owner="quick")

    async def run() -> None:
        for _ in range(3):
            await observe(registry.snapshot("post_tool_call"), "p", None, report)

    asyncio.run(run())
    assert calls == [1, 2, 2, 2]
    assert len(reports) == 1
    assert reports[0].startswith("slow: it took longer than 0.01 s")


def test_a_policy_that_hangs_blocks_now_and_while_it_is_left_out() -> None:
    async def hangs(*_: Any) -> None:
        await asyncio.Event().wait()

    registry = Registry()
    registry.use("pre_tool_call", hangs, owner="guard", timeout_s=0.01)

    async def run() -> list[Any]:
        return [await decide(registry.snapshot("pre_tool_call"), "p", None, report) for _ in range(2)]

    first, second = asyncio.run(run())
    assert (first.action, second.action) == ("block", "block")
    assert "left out" in second.message


def test_every_wish_gets_a_receipt_and_the_strictest_is_delivered() -> None:
    def approve(*_: Any) -> Directive:
        return Directive("approve", "ask first")

    def block(*_: Any) -> Directive:
        return Directive("block", "never")

    def change(*_: Any) -> Directive:
        return Directive("modify", fields={"path": "/tmp"})

    decision = asyncio.run(decide(links("pre_tool_call", approve, change, block), "p", None, report))
    assert decision is not None
    assert (decision.action, decision.message, decision.fields, decision.owner) == ("block", "never", {}, "p2")
    assert [(receipt.owner, receipt.delivered) for receipt in decision.receipts] == [
        ("p0", False), ("p1", False), ("p2", True)]  # fmt: skip
    merged = asyncio.run(decide(links("pre_tool_call", approve, change), "p", None, report))
    assert merged is not None
    assert (merged.action, merged.fields) == ("approve", {"path": "/tmp"})


def test_a_link_that_does_not_want_a_payload_is_not_asked() -> None:
    registry = Registry()
    registry.use("output", lambda value, _: value + "!", owner="a", wants=lambda value: value == "yes")
    chain = registry.snapshot("output")
    assert asyncio.run(transform(chain, "no", None, report)) == "no"
    assert asyncio.run(transform(chain, "yes", None, report)) == "yes!"
