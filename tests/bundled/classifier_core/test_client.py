"""The shared client against a server: what is asked, what is declined and why, and who may try when it is down."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hermes_daemon.api import Refused
from hermes_daemon.bundled.classifier_core.answers import Answer, Choice, Noul, Score
from hermes_daemon.bundled.classifier_core.client import ClassifierClient, Settings
from hermes_daemon.providers.web import Web
from tests.support.system_one import SystemOneServer, answering, breaking, saying, silent, status

YES_OR_NO = {"safe": {"type": "noul", "instructions": "Is it safe?", "criteria": None}}
QUESTIONS = {
    "team": {"type": "choice", "instructions": "Who?", "criteria": {"billing": "money", "technical": None}},
    "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["can wait", "today", "now"]},
    **YES_OR_NO,
}
STATE = "the state that nobody may log"
KEY = "sk-the-key-that-nobody-may-log"


class Desk:
    """A client over a server of the test, with a clock of the test."""

    def __init__(self, endpoint: str, **settings: Any) -> None:
        self.web = Web(asyncio.get_running_loop())
        self.time = 1000.0
        self.environment: dict[str, str] = {}
        fields = {"endpoint": endpoint, "timeout": 20.0, "connect_timeout": 5.0} | settings
        self.client = ClassifierClient(
            Settings(**fields), lambda: self.web, self.environment.get, lambda: self.time, logging.getLogger("desk")
        )

    async def ask(self, caller: str = "one", state: Any = STATE, questions: Mapping[str, Any] = YES_OR_NO,
                  **more: Any) -> dict[str, Answer] | None:  # fmt: skip
        return await self.client.ask(caller, state, questions, **more)

    def declined(self, caller: str = "one") -> dict[str, int]:
        counted: dict[str, int] = self.client.tally.snapshot()["callers"][caller]["declined"]
        return counted


def at_desk(story: Callable[[Desk, SystemOneServer], Awaitable[None]], *steps: Any, **settings: Any) -> None:
    async def run() -> None:
        async with SystemOneServer(*steps) as server:
            desk = Desk(server.url, **settings)
            try:
                await story(desk, server)
            finally:
                await desk.web.close()

    asyncio.run(run())


# --- what is asked ---


def test_questions_of_each_kind_are_sent_in_the_shape_of_the_wire_and_answered() -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        answers = await desk.ask(questions=QUESTIONS)
        assert answers == {
            "team": Choice("billing", 0.5, {"billing": 0.75, "technical": 0.25}),
            "urgency": Score(0.375, 0.5, {"0": "can wait", "1": "today", "2": "now"},
                             {"0": 0.75, "1": 0.125, "2": 0.125}),
            "safe": Noul(0.75),
        }  # fmt: skip
        [request] = server.posts
        assert request.path == "/v1/systemone"
        assert request.json() == {"state": STATE, "model": "jev-latest", "questions": QUESTIONS}
        assert "authorization" not in request.headers

    at_desk(story)


def test_the_endpoint_may_be_given_with_its_path_and_the_model_by_name() -> None:
    async def run() -> None:
        async with SystemOneServer() as server:
            for tail in ("", "/", "/v1", "/v1/systemone"):
                desk = Desk(server.url + tail, served_model="tiny")
                assert await desk.ask(state={"rows": [1, 2]}) == {"safe": Noul(0.75)}
                await desk.web.close()
            assert [(each.path, each.json()["model"]) for each in server.posts] == [("/v1/systemone", "tiny")] * 4

    asyncio.run(run())


def test_heads_give_labels_and_a_head_with_a_threshold_all_that_reach_it() -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        heads = {
            "intent": {"labels": ["ask", "tell"]},
            "traits": {"labels": {"rude": "unfriendly", "long": None}, "cls_threshold": 0.75},
            "flaws": {"labels": ["typo"], "cls_threshold": 0.76},
        }
        found = await desk.client.classify("one", STATE, heads)
        assert found == {"intent": "ask", "traits": ("rude", "long"), "flaws": ()}
        sent = server.posts[0].json()["questions"]
        assert {id: each["type"] for id, each in sent.items()} == {
            "intent": "choice", "traits#0": "noul", "traits#1": "noul", "flaws#0": "noul",
        }  # fmt: skip

    at_desk(story)


def test_A1_1_callers_share_one_client_whose_counters_list_them() -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        await desk.ask("screening")
        await desk.client.classify("compaction", STATE, {"a": {"labels": ["x", "y"]}})
        await desk.ask("compaction", questions={})
        counted = desk.client.tally.snapshot()
        assert (counted["accepted"], counted["declined"]) == (2, {"text_limits": 1})
        assert counted["callers"]["screening"] == {"accepted": 1, "declined": {}, "last_decline": ""}
        assert counted["callers"]["compaction"]["declined"] == {"text_limits": 1}

    at_desk(story)


# --- the breaker ---


@pytest.mark.parametrize("failure", [status(500), status(503), breaking], ids=["500", "503", "connection breaks"])
def test_A1_2_after_failures_in_a_row_of_any_callers_nobody_sends_any_more(failure: Any) -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        for caller in ("one", "two", "one"):
            assert await desk.ask(caller) is None
        assert desk.client.breaker.state == "open"
        for caller in ("one", "two", "three"):
            assert await desk.ask(caller) is None
            assert desk.declined(caller)["breaker_open"] == 1
        assert len(server.posts) == 3
        assert desk.declined("one") == {"service_error": 2, "breaker_open": 1}

    at_desk(story, failure, breaker_failures=3)


def test_A1_2_time_outs_count_as_failures() -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        for _ in range(3):
            assert await desk.ask() is None
        assert await desk.ask() is None
        assert desk.declined() == {"service_error": 3, "breaker_open": 1}

    at_desk(story, silent, breaker_failures=3, timeout=0.05)


def test_a_success_forgets_the_failures_before_it() -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        for _ in range(6):
            await desk.ask()
        assert desk.client.breaker.state == "closed"
        assert desk.declined() == {"service_error": 4}

    at_desk(story, *[status(500), status(500), answering] * 2, breaker_failures=3)


@pytest.mark.parametrize(("works", "then"), [(True, "closed"), (False, "open")])
def test_A1_3_of_ten_threads_exactly_one_tries_when_the_time_is_over(works: bool, then: str) -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        await desk.ask()
        assert desk.client.breaker.state == "open"
        desk.time += 29.9
        await desk.ask()
        assert len(server.posts) == 1
        desk.time += 0.1
        server.held.clear()
        start = threading.Barrier(10)

        def call(number: int) -> dict[str, Answer] | None:
            start.wait(20)
            return desk.client.ask_blocking(f"thread {number}", STATE, YES_OR_NO)

        loop = asyncio.get_running_loop()
        threads = [loop.run_in_executor(pool, call, number) for number in range(10)]
        for finished in itertools.islice(asyncio.as_completed(threads), 9):
            assert await finished is None  # nine are declined while the one request is still under way
        assert desk.client.breaker.state == "half-open"
        server.held.set()
        answers = await asyncio.gather(*threads)
        assert len(server.posts) == 2
        assert sum(answer is not None for answer in answers) == (1 if works else 0)
        assert desk.client.tally.snapshot()["declined"]["breaker_open"] == 9 + 1
        assert desk.client.breaker.state == then
        await desk.ask()
        assert len(server.posts) == (3 if works else 2)

    with ThreadPoolExecutor(10) as pool:
        at_desk(story, status(500), answering if works else status(502), breaker_failures=1, breaker_reset=30)


def test_every_change_of_the_breaker_is_logged_once_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        for _ in range(4):
            await desk.ask()
        desk.time += 30
        await desk.ask()
        desk.time += 30
        await desk.ask()
        rows = [(row.levelname, row.getMessage()) for row in caplog.records if row.name == "desk"]
        assert rows == [
            ("WARNING", f"classifier {server.url}: the breaker goes from {before} to {after}")
            for before, after in (
                ("closed", "open"),
                ("open", "half-open"),
                ("half-open", "open"),
                ("open", "half-open"),
                ("half-open", "closed"),
            )
        ]

    at_desk(story, status(500), status(500), status(500), answering, breaker_failures=2)


def test_what_was_under_way_when_the_breaker_opened_does_not_close_it() -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        server.held.clear()
        slow = asyncio.create_task(desk.ask("slow"))
        await server.arrived.wait()
        ticket = desk.client.breaker.enter()
        assert ticket is not None
        desk.client.breaker.failed(ticket)
        assert desk.client.breaker.state == "open"
        server.held.set()
        assert await slow == {"safe": Noul(0.75)}
        assert desk.client.breaker.state == "open"

    at_desk(story, breaker_failures=1)


# --- replies that are of no use ---

GOOD = {"type": "noul", "noul": 0.5, "probabilities": {"yes": 0.5, "no": 0.5}}


@pytest.mark.parametrize(
    "body",
    [
        b"<html>", b"", b"[]", b'"x"', b"{}", b'{"answers": []}', b'{"answers": {}}', b'{"answers": {"safe": null}}',
        b'{"answers": {"safe": {"type": "choice", "choice": "yes"}}}',
        json.dumps({"answers": {"safe": GOOD | {"noul": 1.0001}}}).encode(),
        json.dumps({"answers": {"safe": GOOD | {"noul": -0.1}}}).encode(),
        json.dumps({"answers": {"safe": GOOD | {"noul": True}}}).encode(),
        json.dumps({"answers": {"safe": GOOD | {"noul": "0.5"}}}).encode(),
        b'{"answers": {"safe": {"type": "noul", "noul": NaN}}}',
    ],
)  # fmt: skip
def test_A1_4_a_reply_of_no_use_is_unusable_body_and_no_failure(body: bytes) -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        for _ in range(4):
            assert await desk.ask() is None
        assert desk.declined() == {"unusable_body": 4}
        assert (desk.client.breaker.state, desk.client.breaker.failures) == ("closed", 0)
        assert len(server.posts) == 4

    at_desk(story, saying(body), breaker_failures=1)


@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("team", {"choice": "nobody"}),
        ("team", {"confidence": 1.5}),
        ("team", {"probabilities": {"billing": 1.2, "technical": -0.2}}),
        ("team", {"probabilities": {"nobody": 1.0}}),
        ("team", {"probabilities": None}),
        ("urgency", {"score": 2.1}),
        ("urgency", {"score": None}),
    ],
)
def test_A1_4_choices_and_scores_must_fit_their_question(id: str, change: dict[str, Any]) -> None:
    answers = {
        "team": {"type": "choice", "choice": "billing", "confidence": 1.0, "probabilities": {"billing": 1.0}},
        "urgency": {"type": "score", "score": 2, "confidence": 1.0, "probabilities": {"2": 1}},
        "safe": GOOD,
    }
    broken = answers | {id: answers[id] | change}

    async def story(desk: Desk, server: SystemOneServer) -> None:
        assert await desk.ask(questions=QUESTIONS) is not None
        assert await desk.ask(questions=QUESTIONS) is None
        assert desk.declined() == {"unusable_body": 1}

    at_desk(story, saying(json.dumps({"answers": answers}).encode()), saying(json.dumps({"answers": broken}).encode()))


@pytest.mark.parametrize(
    ("code", "reason"), [(422, "service_error"), (401, "service_error"), (413, "text_limits"), (302, "service_error")]
)
def test_a_refusal_is_no_failure_of_the_service(code: int, reason: str) -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        assert await desk.ask() is None
        assert desk.declined() == {reason: 1}
        assert desk.client.breaker.state == "closed"
        assert len(server.posts) == 1

    at_desk(story, status(code, {"detail": [{"type": "value_error", "loc": ["body"], "msg": "no"}]}),
            breaker_failures=1)  # fmt: skip


# --- configuration and limits ---


def test_A1_5_without_an_endpoint_every_call_is_declined_and_the_client_stays_unhealthy() -> None:
    async def run() -> None:
        desk = Desk("")
        assert desk.client.healthy
        assert await desk.ask() is None
        assert desk.declined() == {"not_configured": 1}
        assert not desk.client.healthy

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["questions", "heads", "labels"])
def test_A1_6_the_thirty_third_head_is_declined_and_nothing_is_sent(kind: str) -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        async def ask(count: int) -> Any:
            names = [f"n{number}" for number in range(count)]
            if kind == "questions":
                return await desk.ask(questions=dict.fromkeys(names, YES_OR_NO["safe"]))
            if kind == "heads":
                return await desk.client.classify("one", STATE, {name: {"labels": ["a", "b"]} for name in names})
            return await desk.client.classify("one", STATE, {"many": {"labels": names, "cls_threshold": 0.5}})

        assert await ask(32) is not None
        assert await ask(33) is None
        assert desk.declined() == {"text_limits": 1}
        assert len(server.posts) == 1

    at_desk(story)


@pytest.mark.parametrize("state", ["", "  ", None, [], {}, 7, "x" * 101, {"x": "y" * 100}, {"x": object()}, "\ud800"])
def test_a_state_beyond_the_limits_is_declined_and_not_sent(state: Any) -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        assert await desk.ask(state="x" * 100) is not None
        assert await desk.ask(state=state) is None
        assert desk.declined() == {"text_limits": 1}
        assert len(server.posts) == 1

    at_desk(story, max_state_chars=100)


def test_A1_7_the_key_is_read_when_a_call_is_made() -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        assert await desk.ask() is None
        assert desk.declined() == {"not_configured": 1}
        assert server.posts == []
        for key in (KEY, KEY[::-1]):
            desk.environment["CLASSIFIER_KEY"] = key
            assert await desk.ask() is not None
            assert server.posts[-1].headers["authorization"] == f"Bearer {key}"
        desk.environment["CLASSIFIER_KEY"] = "two\nlines"
        assert await desk.ask() is None

    at_desk(story, api_key_env="CLASSIFIER_KEY")


@pytest.mark.parametrize(
    "endpoint", ["localhost:8088", "ftp://x", "http://", "http://me:secret@x", "http://x?key=secret", "http://x:99999"]
)
def test_an_endpoint_that_cannot_be_asked_or_holds_a_secret_is_refused(endpoint: str) -> None:
    async def run() -> None:
        with pytest.raises(Refused, match=r"settings\.endpoint") as refused:
            Desk(endpoint)
        assert "secret" not in str(refused.value)

    asyncio.run(run())


# --- silence ---


@pytest.mark.parametrize(
    "step",
    [status(500, {"detail": STATE}), status(422, {"detail": STATE}), saying(STATE.encode()), breaking, silent],
    ids=["500", "422", "no JSON", "breaks", "silent"],
)
def test_A1_8_no_failure_logs_the_key_the_state_or_a_body(step: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def story(desk: Desk, server: SystemOneServer) -> None:
        desk.environment["CLASSIFIER_KEY"] = KEY
        for _ in range(3):
            assert await desk.ask(questions=QUESTIONS) is None
        await desk.client.probe()
        shown = json.dumps(desk.client.tally.snapshot())
        for secret in (KEY, STATE, "How urgent?"):
            assert secret not in caplog.text
            assert secret not in shown

    at_desk(story, step, api_key_env="CLASSIFIER_KEY", timeout=0.2, breaker_failures=2)


# --- health ---


def test_A1_9_a_probe_is_one_fresh_request_whatever_the_breaker_says() -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        await desk.ask()
        assert server.gets == []
        health = await desk.client.probe()
        assert (health.reachable, health.model) == (True, "small")
        assert [each.path for each in server.gets] == ["/health"]
        assert desk.client.breaker.state == "open"
        server.health = (200, {"status": "ok", "model": None, "warm": False})
        health = await desk.client.probe()
        assert (health.reachable, health.model) == (True, None)
        assert len(server.gets) == 2
        assert desk.client.breaker.state == "open"

    at_desk(story, status(500), breaker_failures=1)


def test_a_probe_of_a_server_that_is_gone_says_so() -> None:
    async def run() -> None:
        async with SystemOneServer() as server:
            url = server.url
        desk = Desk(url)
        health = await desk.client.probe()
        assert not health.reachable
        assert health.problem
        await desk.web.close()

    asyncio.run(run())


# --- cancelled ---


@pytest.mark.parametrize("make", [asyncio.Event, threading.Event])
def test_A1_10_a_cancelled_call_gives_none_and_is_no_failure(make: Any) -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        server.held.clear()
        cancel = make()
        call = asyncio.create_task(desk.ask(cancel=cancel))
        await server.arrived.wait()
        cancel.set()
        assert await call is None
        assert await desk.ask(cancel=cancel) is None
        assert desk.declined() == {"cancelled": 2}
        assert len(server.posts) == 1
        assert (desk.client.breaker.state, desk.client.breaker.failures) == ("closed", 0)

    at_desk(story, breaker_failures=1)


def test_A1_10_a_cancelled_task_is_counted_stays_cancelled_and_leaves_the_one_try_to_the_next() -> None:
    async def story(desk: Desk, server: SystemOneServer) -> None:
        await desk.ask()
        desk.time += 30
        server.arrived.clear()
        server.held.clear()
        call = asyncio.create_task(desk.ask())
        await server.arrived.wait()
        assert desk.client.breaker.state == "half-open"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert desk.declined() == {"service_error": 1, "cancelled": 1}
        server.held.set()
        assert await desk.ask() is not None
        assert desk.client.breaker.state == "closed"

    at_desk(story, status(500), answering, breaker_failures=1)


def test_a_fault_of_our_own_is_counted_and_never_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        def broken() -> Web:
            raise RuntimeError(STATE)

        client = ClassifierClient(Settings("http://x"), broken, {}.get, lambda: 0.0, logging.getLogger("desk"))
        assert await client.ask("one", STATE, YES_OR_NO) is None
        assert client.tally.snapshot()["declined"] == {"service_error": 1}
        assert client.breaker.state == "closed"
        assert "RuntimeError" in caplog.text
        assert STATE not in caplog.text

    asyncio.run(run())
