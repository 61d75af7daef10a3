"""A guest that fails alike on every call is told once."""

import logging

import pytest

from hermes_daemon.middleware.faults import Faults
from hermes_daemon.middleware.registry import Registry


def test_the_first_failure_warns_with_what_is_passed_and_repeats_are_quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    faults = Faults(logging.getLogger("test"), lambda text: text.replace("sk-1", "***"))
    registry = Registry()
    registry.use("output", lambda value, _: None, owner="demo")
    [link] = registry.snapshot("output")
    for number in range(3):
        faults.report(link, TypeError(f"unexpected sk-1 {'x' * 300}{number}"), fields=("request", "model"))
    faults.report(link, ValueError("another"))
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "DEBUG", "DEBUG", "WARNING"]
    assert "It is given: model, request." in caplog.messages[0]
    assert "sk-1" not in caplog.text
    assert faults.repeats == 2


def test_loading_an_owner_again_makes_its_failures_news(caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults(logging.getLogger("test"))
    registry = Registry()
    registry.use("output", lambda value, _: None, owner="demo")
    [link] = registry.snapshot("output")
    faults.report(link, ValueError("a"))
    faults.reset("other")
    faults.report(link, ValueError("a"))
    faults.reset("demo")
    faults.report(link, ValueError("a"))
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
