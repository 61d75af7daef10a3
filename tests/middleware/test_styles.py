"""The four styles, and what happens when a link fails."""

import asyncio
from typing import Any

import pytest

from hermes_daemon.middleware.registry import Link, Registry
from hermes_daemon.middleware.styles import (
    Directive,
    ExecutionBlocked,
    MiddlewareError,
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
    assert reports == ["p1: late", "p0: boom"] or reports == ["p0: boom", "p1: late"]


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
    assert verdict == Directive("block", "never", {"a": 2})
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
    with pytest.raises(MiddlewareError, match="privacy failed at messages: boom"):
        asyncio.run(transform(registry.snapshot("messages"), 1, None, report))
