"""The families of servers that speak chat completions: where each is, and what each is told differently."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from hermes_daemon.core.settings import Preset as PresetName
from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.chat_stream import ReplyReader
from hermes_daemon.providers.formats import FORMATS
from hermes_daemon.providers.http_provider import HttpProvider
from hermes_daemon.providers.opaque import seal
from hermes_daemon.providers.presets import PRESETS, quirks_of, with_preset
from hermes_daemon.providers.wire import ErrorObject, Quirks, Terms
from hermes_protocol.content import Message, ToolCall
from tests.support.formats_talk import conversation
from tests.support.model_streams import asking
from tests.support.sdk_types import check_request

PARAMS = "types.chat.completion_create_params.CompletionCreateParamsStreaming"
THEIR_OWN = {
    "reasoning",
    "thinking",
    "chat_template_kwargs",
    "top_k",
}  # fields that the SDK does not know


def sent(name: str, request: Any, **settings: Any) -> dict[str, Any]:
    configured = with_preset(name, ProviderSettings(**settings))
    format = FORMATS[configured.format]
    body: dict[str, Any] = json.loads(format.body(request, Terms(quirks_of(name, configured), extra=configured.body)))
    if configured.format == "openai_chat":
        check_request({key: value for key, value in body.items() if key not in THEIR_OWN}, "openai", PARAMS)
    return body


def test_the_settings_know_every_preset() -> None:
    assert set(get_args(PresetName)) == {"", *PRESETS}


@pytest.mark.parametrize("name", PRESETS)
def test_a_whole_round_is_what_the_types_of_the_format_say(name: str) -> None:
    body = sent(name, conversation(image=True, max_output=50, temperature=0.5))
    assert body["stream"] is True
    body = sent(name, asking("x", thinking="high"))
    assert "high" in json.dumps(body) or "16384" in json.dumps(body)


def test_openai_is_told_the_output_limit_by_its_newer_name_and_a_cache_key() -> None:
    body = sent("openai", conversation(max_output=9))
    assert body["max_completion_tokens"] == 9
    assert body["prompt_cache_key"] == "s1"


def test_mistral_takes_short_ids_and_no_unknown_options() -> None:
    body = sent("mistral", conversation())
    calls = body["messages"][2]["tool_calls"]
    assert all(len(call["id"]) == 9 and call["id"].isalnum() for call in calls)
    assert [row["tool_call_id"] for row in body["messages"][3:]] == [call["id"] for call in calls]
    assert "stream_options" not in body


def test_azure_names_the_model_in_its_path_below_the_old_address_only() -> None:
    def url(base: str) -> str:
        settings = with_preset("azure", ProviderSettings(base_url=base))
        quirks = quirks_of("azure", settings)
        return HttpProvider("azure", settings, {}.get, quirks=quirks)._url("my gpt", quirks)

    assert url("https://acme.openai.azure.com/openai") == (
        "https://acme.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"
    )
    assert url("https://acme.openai.azure.com/openai/v1").startswith(
        "https://acme.openai.azure.com/openai/v1/chat/completions"
    )
    settings = with_preset("azure", ProviderSettings(base_url="https://acme.openai.azure.com/openai"))
    assert settings.api_key_env == "AZURE_OPENAI_API_KEY"
    assert quirks_of("azure", settings).key_header == "api-key"


def test_template_servers_keep_the_arguments_of_the_settings() -> None:
    body = sent("vllm", asking("x", thinking="none"), body={"chat_template_kwargs": {"custom": 1}, "top_k": 5})
    assert body["chat_template_kwargs"] == {"custom": 1, "enable_thinking": False}
    assert body["top_k"] == 5


def test_a_family_is_named_for_a_server_elsewhere() -> None:
    elsewhere = ProviderSettings(base_url="http://gpu:9/v1", preset="deepseek")
    assert quirks_of("work", elsewhere).efforts == "deepseek"
    assert with_preset("work", elsewhere).api_key_env == ""  # a key goes only where it was meant to
    assert quirks_of("vllm", ProviderSettings(base_url="http://gpu:9/v1")).efforts == "template"
    assert quirks_of("openai", ProviderSettings(base_url="http://gpu:9/v1")) == Quirks()
    assert quirks_of("nobody", ProviderSettings(base_url="http://gpu:9/v1")) == Quirks()
    claude = with_preset("anthropic", ProviderSettings())
    assert (claude.format, claude.base_url) == ("anthropic_messages", "https://api.anthropic.com/v1")


def test_signatures_of_calls_go_back_as_they_came() -> None:
    """Gemini refuses a call that comes back without what it signed."""
    signature = {"google": {"thought_signature": "AY89"}}
    entry = {"index": 0, "id": "c", "function": {"name": "todo", "arguments": "{}"}, "extra_content": signature}
    reader = ReplyReader(["todo"], model="m")
    reader.feed(json.dumps({"choices": [{"delta": {"tool_calls": [entry]}, "finish_reason": "tool_calls"}]}))
    reply = reader.reply()
    assert reply is not None
    configured = with_preset("gemini", ProviderSettings())
    body = json.loads(FORMATS[configured.format].body(conversation(answered=reply.message), Terms()))
    assert body["messages"][2]["tool_calls"][0]["extra_content"] == signature
    foreign = Message("assistant", (ToolCall("c", "todo", "{}", seal("openai_chat", "another", 1)),))
    assert b"extra_content" not in FORMATS["openai_chat"].body(conversation(answered=foreign), Terms())


def test_thinking_in_pieces_goes_back_whole() -> None:
    """Gateways sign thinking in typed pieces that have to come back in their order."""
    pieces: list[dict[str, Any]] = [
        {"reasoning": "pl", "reasoning_details": [{"type": "reasoning.text", "text": "pl", "index": 0}]},
        {"reasoning": "an", "reasoning_details": [{"type": "reasoning.text", "text": "an", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "sig", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA", "index": 1}, 7]},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "todo", "arguments": "{}"}}]},
    ]
    reader = ReplyReader(["todo"], model="m")
    for piece in pieces:
        reader.feed(json.dumps({"choices": [{"delta": piece}]}))
    reader.feed('{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}')
    reply = reader.reply()
    assert reply is not None
    assert reply.message.parts[0].text == "plan"  # type: ignore[union-attr]
    body = sent("openrouter", conversation(answered=reply.message))
    assert body["messages"][2]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "signature": "sig", "text": "plan"},
        {"type": "reasoning.encrypted", "index": 1, "data": "gAAA"},
    ]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"x_groq": {"error": "over capacity"}, "choices": []}, "over capacity"),
        ({"choices": [{"delta": {}, "finish_reason": "insufficient_system_resource"}]}, "insufficient_system_resource"),
    ],
)
def test_errors_in_the_words_of_a_family(event: dict[str, Any], words: str) -> None:
    with pytest.raises(ErrorObject, match=words):
        ReplyReader().feed(json.dumps(event))


def test_usage_in_groqs_envelope_counts() -> None:
    reader = ReplyReader()
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    choice = {"delta": {"content": "a"}, "finish_reason": "stop"}
    reader.feed(json.dumps({"choices": [choice], "x_groq": {"usage": usage}}))
    reply = reader.reply()
    assert reply is not None
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (3, 2)
