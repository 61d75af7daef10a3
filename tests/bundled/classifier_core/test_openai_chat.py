"""The same questions put to a chat endpoint, and the probabilities read from its tokens."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.bundled.classifier_core.answers import Choice, Noul, Score
from hermes_daemon.bundled.classifier_core.client import ClassifierClient, Settings
from hermes_daemon.bundled.classifier_core.logprobs import option_shares, tokens_of
from hermes_daemon.bundled.classifier_core.questions import checked
from hermes_daemon.providers.web import Web
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp

QUESTIONS = {
    "team": {"type": "choice", "instructions": "Who?", "criteria": {"billing": "money", "bugs": None}},
    "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["can wait", "today", "now"]},
    "safe": {"type": "noul", "instructions": "Is it safe?", "criteria": {"true": "harmless", "false": "harmful"}},
}
TEXT = '{"team":"bugs","urgency":1,"safe":"yes"}'


def token(text: str, share: float = 1.0, **others: float) -> dict[str, Any]:
    rows = {text: share} | others
    return {
        "token": text,
        "logprob": math.log(share),
        "top_logprobs": [{"token": word, "logprob": math.log(each)} for word, each in rows.items()],
    }


TOKENS = [
    token('{"team":"'), token("b"), token("ugs", 0.75, illing=0.2, lah=0.05), token('","urgency":'),
    token("1", 0.5, **{"0": 0.25, "2": 0.25}), token(',"safe'), token('":"'), token("yes", 0.9, no=0.1), token('"}'),
]  # fmt: skip


def reply(text: str = TEXT, tokens: Any = None) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    if tokens is not None:
        choice["logprobs"] = {"content": tokens}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice]}).encode()


def story(
    work: Callable[[ClassifierClient, RawHttp], Awaitable[None]], answer: Callable[[HttpRequest], tuple[int, bytes]]
) -> None:
    async def handle(request: HttpRequest, connection: HttpConnection) -> None:
        code, body = answer(request)
        await connection.answer(code, body)

    async def run() -> None:
        web = Web()
        async with RawHttp(handle) as server:
            settings = Settings(f"{server.url}/v1", "tiny", backend="openai_chat", timeout=20, connect_timeout=5)
            client = ClassifierClient(settings, lambda: web, {}.get, lambda: 0.0, logging.getLogger("desk"))
            try:
                await work(client, server)
            finally:
                await web.close()

    asyncio.run(run())


def test_the_questions_become_one_request_with_a_schema_and_probabilities_come_from_the_tokens() -> None:
    async def work(client: ClassifierClient, server: RawHttp) -> None:
        answers = await client.ask("one", "A crash on start.", QUESTIONS)
        assert answers == {
            "team": Choice("bugs", pytest.approx(0.75 / 0.95), pytest.approx({"billing": 0.2 / 0.95,
                                                                              "bugs": 0.75 / 0.95})),
            "urgency": Score(pytest.approx(1.0), pytest.approx(0.5), {"0": "can wait", "1": "today", "2": "now"},
                             pytest.approx({"0": 0.25, "1": 0.5, "2": 0.25})),
            "safe": Noul(pytest.approx(0.9)),
        }  # fmt: skip
        [request] = server.requests
        assert (request.method, request.path) == ("POST", "/v1/chat/completions")
        body = request.json()
        schema = body["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["team"] == {"type": "string", "enum": ["billing", "bugs"]}
        assert schema["properties"]["urgency"] == {"type": "integer", "enum": [0, 1, 2]}
        assert (schema["required"], schema["additionalProperties"]) == (["team", "urgency", "safe"], False)
        assert (body["model"], body["temperature"], body["logprobs"]) == ("tiny", 0, True)
        for words in ("A crash on start.", 'Question "team": Who?', '- "billing": money', "- 2: now", "harmful"):
            assert words in body["messages"][1]["content"]

    story(work, lambda request: (200, reply(tokens=TOKENS)))


def test_without_logprobs_the_chosen_option_has_one_and_says_that_it_is_not_calibrated() -> None:
    async def work(client: ClassifierClient, server: RawHttp) -> None:
        assert await client.ask("one", "A crash.", QUESTIONS) == {
            "team": Choice("bugs", 1.0, {"billing": 0.0, "bugs": 1.0}, calibrated=False),
            "urgency": Score(1.0, 1.0, {"0": "can wait", "1": "today", "2": "now"}, {"0": 0.0, "1": 1.0, "2": 0.0},
                             calibrated=False),
            "safe": Noul(1.0, calibrated=False),
        }  # fmt: skip

    story(work, lambda request: (200, reply()))


def test_a_server_that_refuses_logprobs_is_asked_without_them_from_then_on() -> None:
    def answer(request: HttpRequest) -> tuple[int, bytes]:
        return (400, b'{"error": {"message": "logprobs"}}') if "logprobs" in request.json() else (200, reply())

    async def work(client: ClassifierClient, server: RawHttp) -> None:
        for _ in range(2):
            assert await client.ask("one", "A crash.", QUESTIONS) is not None
        assert ["logprobs" in each.json() for each in server.requests] == [True, False, False]

    story(work, answer)


@pytest.mark.parametrize(
    "text",
    ["I think it is safe.", "[]", "{}", TEXT.replace("bugs", "nobody"), TEXT.replace("1", "3"),
     TEXT.replace("1", "true"), TEXT.replace('"yes"', "true"), TEXT[:-5]],
)  # fmt: skip
def test_an_answer_that_is_none_of_the_options_is_unusable_body(text: str) -> None:
    async def work(client: ClassifierClient, server: RawHttp) -> None:
        assert await client.ask("one", "A crash.", QUESTIONS) is None
        assert client.tally.snapshot()["declined"] == {"unusable_body": 1}
        assert client.breaker.failures == 0

    story(work, lambda request: (200, reply(text)))


def test_a_model_must_be_named() -> None:
    async def run() -> None:
        settings = Settings("http://x/v1", backend="openai_chat")
        client = ClassifierClient(settings, Web, {}.get, lambda: 0.0, logging.getLogger("desk"))
        assert await client.ask("one", "A crash.", QUESTIONS) is None
        last = client.tally.snapshot()["callers"]["one"]["last_decline"]
        assert last == "not_configured: the setting served_model is empty"

    asyncio.run(run())


@pytest.mark.parametrize(("listed", "model"), [("tiny", "tiny"), ("other", None)])
def test_a_probe_looks_whether_the_model_is_listed(listed: str, model: str | None) -> None:
    async def work(client: ClassifierClient, server: RawHttp) -> None:
        health = await client.probe()
        assert (health.reachable, health.model) == (True, model)
        assert server.requests[0].path == "/v1/models"

    story(work, lambda request: (200, json.dumps({"data": [{"id": listed}]}).encode()))


# --- the tokens ---


def test_tokens_that_do_not_make_up_the_text_tell_nothing() -> None:
    assert tokens_of(TOKENS, TEXT)
    assert tokens_of([token("```json\n"), *TOKENS, token("\n```"), token("<end>")], TEXT) == tokens_of(TOKENS, TEXT)
    for rows in (None, [], TOKENS[1:], TOKENS[:-1], [{"token": "x"}], [None], "x"):
        assert tokens_of(rows, TEXT) == ()


OPTIONS = st.lists(st.text(st.sampled_from('ab"é '), min_size=1, max_size=4), min_size=2, max_size=5, unique=True)


@given(OPTIONS.filter(lambda options: all(option.strip() for option in options)), st.data())
def test_however_a_text_is_cut_into_tokens_the_shares_are_of_the_options_and_the_certain_one_has_all(
    options: list[str], data: st.DataObject
) -> None:
    [question] = checked({"q": {"type": "choice", "criteria": dict.fromkeys(options)}})
    chosen = data.draw(st.sampled_from(options))
    text = '{"q": ' + json.dumps(chosen, ensure_ascii=False) + "}"
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    certain = option_shares(
        tokens_of(
            [token(piece) for piece in pieces],
            text,
        ),
        text,
        question,
    )
    assert certain == {option: 1.0 if option == chosen else 0.0 for option in options}
    unsure = [
        token(piece, 0.5, **{data.draw(st.text(st.sampled_from('ab"é }'), min_size=1, max_size=3)): 0.25})
        for piece in pieces
    ]
    shares = option_shares(tokens_of(unsure, text), text, question)
    assert shares is not None
    assert set(shares) == set(options)
    assert all(share >= 0 for share in shares.values())
    assert 0 < sum(shares.values()) <= 1.0 + 1e-9
