"""The rules of the registry, R1 to R11 of the contract, each named in its test."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hermes_daemon.middleware.faults import Faults
from hermes_daemon.middleware.registry import Link, Registry
from hermes_daemon.middleware.styles import Conflict, MiddlewareError, Step, transform

log = logging.getLogger("tests.rules")


class Heard:
    """What is reported."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, BaseException]] = []

    def __call__(self, link: Link, error: BaseException) -> None:
        self.errors.append((link.owner, error))

    @property
    def words(self) -> list[str]:
        return [f"{owner}: {error}" for owner, error in self.errors]


def run(registry: Registry, value: Any, heard: Heard | None = None, steps: list[Step] | None = None) -> Any:
    return asyncio.run(transform(registry.snapshot("output"), value, None, heard or Heard(), steps))


def use(registry: Registry, call: Any, owner: str = "p", **more: Any) -> Any:
    return registry.use("output", call, owner=owner, shape="prism", **more)


def adding(letter: str) -> Any:
    return lambda value, following: value + letter


async def boom(value: str, following: Any) -> str:
    raise ValueError("boom")


def test_use_appends_and_gives_the_way_back_and_the_list_is_a_copy() -> None:
    """R1: `use` appends and gives an unsubscribe, lists are copies, aliases and names of points are known."""
    registry = Registry()
    first, _ = use(registry, adding("a")), use(registry, adding("b"))
    before = registry.snapshot("output")
    registry.rows().clear()
    first.remove()
    assert (len(before), len(registry.snapshot("output")), len(registry.rows())) == (2, 1, 1)
    with pytest.raises(ValueError, match="no middleware point is called 'ouput', did you mean 'output'"):
        registry.use("ouput", boom, owner="p")


def test_without_middleware_the_very_same_object_comes_back() -> None:
    """R2."""
    value = {"a": [1]}
    assert run(Registry(), value) is value


def test_the_order_is_that_of_registration_async_and_sync_mixed() -> None:
    """R3."""

    async def later(value: str, following: Any) -> str:
        await asyncio.sleep(0)
        return value + "b"

    registry = Registry()
    for call in (adding("a"), later, adding("c")):
        use(registry, call)
    assert run(registry, "") == "abc"


def test_next_commits_and_gives_back_what_it_was_given() -> None:
    """R4: a fold, not an onion: what follows `next` sees its argument, not what later links make of it."""
    seen: list[str] = []

    async def first(value: str, following: Any) -> None:
        seen.append(await following(value + "a"))

    registry = Registry()
    use(registry, first)
    use(registry, adding("b"))
    assert run(registry, "") == "ab"
    assert seen == ["a"]


def test_next_works_once_and_the_first_value_stays() -> None:
    """R5: the second call is an error that names point and index, told by the link's policy."""

    async def twice(value: str, following: Any) -> str:
        await following("first")
        return str(await following("second"))

    registry, heard = Registry(), Heard()
    use(registry, twice)
    assert run(registry, "", heard) == "first"
    assert heard.words == ["p: next was called twice at output[0]; the first value stays"]


def test_of_a_committed_and_a_returned_value_the_committed_one_wins() -> None:
    """R6: the conflict is told and never thrown."""

    async def both(value: str, following: Any) -> str:
        await following("committed")
        return "returned"

    registry, heard, steps = Registry(), Heard(), list[Step]()
    use(registry, both, on_error="throw")
    assert run(registry, "", heard, steps) == "committed"
    assert isinstance(heard.errors[0][1], Conflict)
    assert steps[0].outcome == "conflicted"


def test_what_is_returned_without_next_is_the_value_and_nothing_keeps_earlier_commits() -> None:
    """R7: None is no change: not None for the next link, and not the value from before the first."""
    registry = Registry()
    use(registry, adding("a"))
    use(registry, lambda value, following: None)
    use(registry, adding("b"))
    assert run(registry, "") == "ab"


def test_a_failure_is_told_and_the_work_goes_on_with_the_last_committed_value() -> None:
    """R8: policy `event`; with `throw` the run ends at the first failure."""

    async def late(value: str, following: Any) -> None:
        await following(value + "b")
        raise ValueError("late")

    registry, heard = Registry(), Heard()
    for call in (adding("a"), boom, late, adding("c")):
        use(registry, call)
    assert run(registry, "", heard) == "abc"
    assert heard.words == ["p: boom", "p: late"]
    use(registry, boom, "strict", on_error="throw")
    with pytest.raises(MiddlewareError, match=r"strict failed at output\[4\]: boom"):
        run(registry, "")


def test_secrets_are_taken_out_of_what_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """R9."""
    registry = Registry()
    use(registry, boom)
    [link] = registry.snapshot("output")
    faults = Faults(log, lambda text: text.replace("k-123", "[secret]"))
    assert faults.report(link, ValueError("with k-123"), fields=("value", "next"))
    assert "[secret]" in caplog.text
    assert "k-123" not in caplog.text
    assert "It is given: next, value." in caplog.text


def test_an_owner_takes_away_exactly_what_it_registered() -> None:
    """R10."""
    registry = Registry()
    shared = adding("s")
    use(registry, shared, "one")
    use(registry, shared, "two")
    registry.use("retry", boom, owner="one")
    registry.remove_owner("one")
    assert [(link.owner, link.point) for link in registry.rows()] == [("two", "output")]


def test_a_function_that_is_registered_twice_is_removed_once() -> None:
    """R11: a handle removes its own registration, not every one of the same function."""
    registry = Registry()
    shared = adding("s")
    handle = use(registry, shared)
    use(registry, shared)
    handle.remove()
    handle.remove()
    assert run(registry, "") == "s"


def test_what_registers_during_a_run_starts_with_the_next() -> None:
    """R11."""
    registry = Registry()

    async def grows(value: str, following: Any) -> str:
        use(registry, adding("x"))
        return value + "a"

    use(registry, grows)
    assert run(registry, "") == "a"
    assert run(registry, "") == "ax"


def test_a_reporter_that_fails_does_not_break_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """R11."""

    def broken(link: Link, error: BaseException) -> None:
        raise RuntimeError("no disk")

    registry = Registry()
    use(registry, boom)
    use(registry, adding("a"))
    assert asyncio.run(transform(registry.snapshot("output"), "", None, broken)) == "a"
    assert "could not be reported: no disk" in caplog.text
