"""Registrations come and go exactly."""

from typing import Any

import pytest

from hermes_daemon.middleware.points import POINTS
from hermes_daemon.middleware.registry import Registry


def same(value: Any, _: Any) -> None:
    return None


def test_a_handle_removes_its_own_registration_only() -> None:
    registry = Registry()
    first = registry.use("messages", same, owner="a")
    registry.use("messages", same, owner="b")
    first.remove()
    first.remove()
    assert [link.owner for link in registry.snapshot("messages")] == ["b"]


def test_an_owner_leaves_with_everything_it_registered() -> None:
    registry = Registry()
    registry.use("messages", same, owner="a")
    registry.use("llm_request", same, owner="a")
    registry.use("messages", same, owner="b")
    registry.remove_owner("a")
    assert [(link.point, link.owner) for link in registry.rows()] == [("messages", "b")]


def test_a_snapshot_does_not_see_later_registrations() -> None:
    registry = Registry()
    before = registry.snapshot("messages")
    registry.use("messages", same, owner="a")
    assert before == ()


def test_a_session_adds_to_the_daemons_registrations() -> None:
    daemon = Registry()
    session = Registry(daemon)
    session.use("messages", same, owner="client")
    daemon.use("messages", same, owner="plugin")
    assert [link.owner for link in session.snapshot("messages")] == ["plugin", "client"]
    assert [link.owner for link in daemon.snapshot("messages")] == ["plugin"]


def test_an_alias_is_the_point_and_a_wrong_name_names_the_nearest() -> None:
    registry = Registry()
    registry.use("input_assembly", same, owner="a")
    assert len(registry.snapshot("messages")) == 1
    with pytest.raises(ValueError, match="did you mean 'llm_request'"):
        registry.use("llm_requests", same, owner="a")


def test_the_same_callable_registered_twice_is_two_registrations() -> None:
    registry = Registry()
    first = registry.use("messages", same, owner="a")
    registry.use("messages", same, owner="a")
    first.remove()
    assert len(registry.snapshot("messages")) == 1


def test_a_point_nobody_registered_for_costs_a_look() -> None:
    daemon = Registry()
    session = Registry(daemon)
    assert not session.has("messages")
    handle = daemon.use("messages", same, owner="a")
    assert session.has("messages")
    handle.remove()
    assert not session.has("messages")
    assert session.snapshot("messages") == ()


def test_a_link_says_which_callable_it_is() -> None:
    registry = Registry()
    registry.use("messages", same, owner="a")
    [link] = registry.rows()
    assert link.name.endswith("test_registry.same")


def test_every_point_has_a_sentence_and_a_payload() -> None:
    for point in POINTS.values():
        assert point.summary.endswith(".")
        assert point.payload is not None
