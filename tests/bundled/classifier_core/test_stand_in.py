"""The stand-in keeps the laws of the real client, so that a plugin tested with it meets no surprise."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from hermes_daemon.bundled.classifier_core.answers import Choice, Noul
from hermes_daemon.bundled.classifier_core.testing import ClassifierStub

CHOICE = {"type": "choice", "choice": "low", "confidence": 0.9, "probabilities": {"low": 0.95, "high": 0.05}}
QUESTION = {"risk": {"type": "choice", "instructions": "How risky?", "criteria": {"low": None, "high": None}}}
HEADS: dict[str, Any] = {"risk": {"labels": ["low", "high"]}, "traits": {"labels": ["a", "b"], "cls_threshold": 0.5}}


def declined(stub: ClassifierStub) -> dict[str, int]:
    counted: dict[str, int] = stub.tally.snapshot()["declined"]
    return counted


def test_a_reply_answers_ask_and_the_call_is_kept() -> None:
    stub = ClassifierStub().install({"risk": CHOICE})
    answers = asyncio.run(stub.services["classifier_core"].ask("mine", "text", QUESTION))
    assert answers == {"risk": Choice("low", 0.9, {"low": 0.95, "high": 0.05})}
    [asked] = stub.asked
    assert (asked.caller, asked.state, asked.questions) == ("mine", "text", QUESTION)


def test_a_reply_may_be_a_function_of_what_is_asked() -> None:
    stub = ClassifierStub().install(lambda state, questions: {id: {"type": "noul", "noul": 0.2} for id in questions})
    assert stub.ask_blocking("mine", "text", {"q": {"type": "noul"}}) == {"q": Noul(0.2)}
    assert stub.install(lambda state, questions: None).ask_blocking("mine", "text", {"q": {"type": "noul"}}) is None
    assert declined(stub) == {"service_error": 1}


def test_labels_answer_classify() -> None:
    stub = ClassifierStub().install(labels={"risk": "high", "traits": ("b",)})
    assert asyncio.run(stub.classify("mine", "text", HEADS)) == {"risk": "high", "traits": ("b",)}
    stub.install(labels={"risk": "high"})
    assert asyncio.run(stub.classify("mine", "text", HEADS)) == {"risk": "high", "traits": ()}


def test_absent_takes_the_service_away_and_install_brings_it_back() -> None:
    stub = ClassifierStub().install({})
    assert stub.install(absent=True).services == {}
    assert stub.install({}).services == {"classifier_core": stub}


@pytest.mark.parametrize(
    ("reply", "labels", "reason"),
    [
        (None, None, "service_error"),
        ({"risk": CHOICE | {"confidence": 1.5}}, {"risk": "nobody"}, "unusable_body"),
        ({}, {}, "unusable_body"),
    ],
)
def test_what_the_service_could_not_say_is_declined(reply: Any, labels: Any, reason: str) -> None:
    stub = ClassifierStub().install(reply, labels=labels)
    assert stub.ask_blocking("mine", "text", QUESTION) is None
    assert stub.classify_blocking("mine", "text", HEADS) is None
    assert declined(stub) == {reason: 2}


def test_the_limits_and_the_cancelled_call_are_those_of_the_client() -> None:
    stub = ClassifierStub().install(labels=lambda state, heads: dict.fromkeys(heads, "a"))
    many = {str(number): {"labels": ["a"]} for number in range(33)}
    assert stub.classify_blocking("mine", "text", many) is None
    cancel = threading.Event()
    cancel.set()
    assert stub.classify_blocking("mine", "text", {"x": {"labels": ["a"]}}, cancel=cancel) is None
    assert declined(stub) == {"text_limits": 1, "cancelled": 1}
