from __future__ import annotations

import json
import ssl
from email.utils import parsedate_to_datetime

import httpx
import pytest

from hermes_daemon.providers.failures import (
    BODY_CHARS,
    Endpoint,
    context_limit,
    error_text,
    redact,
    retry_after,
    status_failure,
    stream_failure,
    transport_failure,
)
from tests.support.shared_data import case_bytes

AT = Endpoint("acme", "https://api.acme.test/v1/chat/completions", "big-1", "ACME_KEY", "s3cret-value")


def error(message: str, code: object = None) -> bytes:
    return json.dumps({"error": {"message": message, "code": code}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, error("This model's maximum context length is 8192 tokens"), "context_overflow", False),
        (400, error("x", "context_length_exceeded"), "context_overflow", False),
        (
            400,
            error("request (6031 tokens) exceeds the available context size (4096 tokens)"),
            "context_overflow",
            False,
        ),
        (400, error("prompt is too long: 210000 tokens > 200000 maximum"), "context_overflow", False),
        (413, b"Request Entity Too Large", "context_overflow", False),
        (429, error("Request too large: limit 30000 tokens per min (TPM), context length"), "rate", True),
        (400, error("missing field 'x'"), "bad_request", False),
        (400, error("The response was filtered", "content_filter"), "content_filter", False),
        (401, error("Incorrect API key"), "auth", False),
        (403, error("Forbidden"), "auth", False),
        (402, error("Payment Required"), "quota", False),
        (429, error("You exceeded your current quota", "insufficient_quota"), "quota", False),
        (429, error("slow down"), "rate", True),
        (404, error("The model `big-1` does not exist", "model_not_found"), "model_missing", False),
        (404, error('model "big-1" not found, try pulling it first'), "model_missing", False),
        (400, error("big-1 is not a valid model ID"), "model_missing", False),
        (404, b"404 page not found", "bad_request", False),
        (408, b"", "overload", True),
        (500, error("boom"), "overload", True),
        (503, error("Loading model"), "overload", True),
        (529, error("Overloaded"), "overload", True),
        (501, b"", "bad_request", False),
        (307, b"", "bad_request", False),
    ],
)
def test_a_status_and_its_body_say_what_kind_of_failure_it_is(
    status: int, body: bytes, kind: str, retryable: bool
) -> None:
    failure = status_failure(AT, status, {}, body, 0.0)
    assert (failure.kind, failure.retryable, failure.status) == (kind, retryable, status)
    assert AT.url in failure.message
    assert failure.provider == "acme"


def test_an_auth_failure_names_the_variable_and_never_the_key() -> None:
    failure = status_failure(AT, 401, {}, error("Incorrect API key provided: s3cret-value"), 0.0)
    assert "ACME_KEY" in failure.message
    assert "s3cret-value" not in failure.message
    assert "Incorrect API key provided: ***" in failure.message
    assert "s3cret-value" not in repr(AT)


def test_what_looks_like_a_key_is_taken_out() -> None:
    assert redact("used sk-proj-abcdef123456 and Bearer abc.def", "") == "used sk-*** and Bearer ***"
    assert redact("a risk-free task", "") == "a risk-free task"


def test_a_long_or_marked_up_body_is_bounded_and_plain() -> None:
    page = "<html><head><style>b{}</style><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>"
    assert error_text(page) == ("502 Bad Gateway nginx", "")
    text, _ = error_text("x" * 100_000)
    assert len(text) == BODY_CHARS + 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": "plain"}', "plain"),
        ('{"error": {"message": "m", "code": 3}}', "m"),
        ('{"message": "top"}', "top"),
        ('{"detail": [{"msg": "field required"}]}', "field required"),
        ('[{"error": {"message": "in a list"}}]', "in a list"),
        ('{"error": {"message": "Provider returned error", "metadata": {"raw": "it is down"}}}',
         "Provider returned error (it is down)"),
        ('{"odd": 1}', '{"odd":1}'),
        ("", ""),
    ],
)  # fmt: skip
def test_error_bodies_of_every_usual_shape(body: str, words: str) -> None:
    assert error_text(body)[0] == words


def test_an_error_inside_a_stream_counts_as_passing_unless_it_says_otherwise() -> None:
    passing = stream_failure(AT, {"message": "upstream disconnected", "code": "provider_disconnected"})
    assert (passing.kind, passing.retryable) == ("overload", True)
    assert "upstream disconnected" in passing.message
    assert stream_failure(AT, {"message": "maximum context length", "code": 400}).kind == "context_overflow"
    assert stream_failure(AT, {"message": "slow", "code": 429}).kind == "rate"


def test_case_retry_after_in_every_form() -> None:
    data = json.loads(case_bytes("provider", "retry-after-date", "headers.json"))
    now = parsedate_to_datetime(data["now"]).timestamp()
    for row in data["cases"]:
        wait = row.pop("wait_s")
        headers = {name.lower(): value for name, value in row.items()}
        assert retry_after(headers, now) == wait, row


def test_the_asked_wait_is_kept_and_said() -> None:
    failure = status_failure(AT, 429, {"retry-after": "7"}, error("slow down"), 0.0)
    assert failure.retry_after == 7.0
    assert "wait 7 s" in failure.message
    assert status_failure(AT, 400, {"retry-after": "7"}, error("no"), 0.0).retry_after is None


def test_a_rejected_certificate_is_told_from_a_network_that_is_down() -> None:
    error = httpx.ConnectError("failed")
    error.__cause__ = ssl.SSLCertVerificationError(1, "self-signed certificate")
    failure = transport_failure(AT, error, streaming=False, stall_s=1)
    assert "certificate was not accepted" in failure.message
    assert "verify_tls" in failure.message
    assert not failure.retryable
    timeout = transport_failure(AT, httpx.ConnectTimeout(""), streaming=False, stall_s=1)
    assert "connect_timeout" in timeout.message
    assert timeout.retryable


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("This model's maximum context length is 8192 tokens. However, you requested 9001 tokens.", 8192),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000, decrease input", 200_000),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("This endpoint's maximum context length is 131,072 tokens. You requested about 140,000 tokens", 131_072),
        ("please reduce the length of the messages", None),
        ("maximum context length is 7 tokens", None),
    ],
)
def test_the_window_is_read_from_the_words_of_an_overflow(words: str, tokens: int | None) -> None:
    assert context_limit(words) == tokens
    body = json.dumps({"error": {"message": words}}).encode()
    failure = status_failure(AT, 400, {}, body, 0.0)
    assert (failure.kind, failure.context_limit) == ("context_overflow", tokens)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "overload", True),
        ({"type": "rate_limit_error", "message": "slow"}, "rate", True),
        ({"type": "authentication_error", "message": "no"}, "auth", False),
        ({"type": "billing_error", "message": "pay"}, "quota", False),
        ({"type": "invalid_request_error", "message": "prompt is too long"}, "context_overflow", False),
        ({"type": "invalid_request_error", "message": "odd"}, "bad_request", False),
        ({"code": "server_error", "message": "broke"}, "overload", True),
        ({"code": "bio_policy", "message": "no"}, "content_filter", False),
        ("plain words", "overload", True),
    ],
)
def test_an_error_inside_a_stream_is_judged_by_its_type(error: object, kind: str, retryable: bool) -> None:
    failure = stream_failure(AT, error)
    assert (failure.kind, failure.retryable) == (kind, retryable)
