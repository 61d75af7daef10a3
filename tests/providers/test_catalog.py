from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import Refused
from hermes_daemon.core.settings import LocalSettings, ModelEntry, ModelSettings, ProviderSettings, Settings
from hermes_daemon.providers.catalog import Catalog
from hermes_daemon.providers.presets import PRESETS, with_preset
from hermes_protocol.methods import ModelRow
from tests.support.model_streams import answer, asking, collect
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp
from tests.support.scripted_http import ScriptedHttp

ACME = ProviderSettings(
    base_url="https://acme.test/v1",
    api_key_env="ACME_KEY",
    models=(ModelEntry("big", context_length=9000, max_output=700, tools=False, vision=True), "small"),
)
NOBODY = ProviderSettings(base_url="http://nobody.test/v1")


def catalog(folder: Path | str, secrets: dict[str, str] | None = None, **settings: Any) -> Catalog:
    return Catalog(Settings(**settings), (secrets or {}).get, str(folder))


def with_catalog(made: Catalog, use: Callable[[Catalog], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        try:
            return await use(made)
        finally:
            await made.close()

    return asyncio.run(run())


def rows_of(made: Catalog, probe: bool = False) -> dict[str, ModelRow]:
    return {row.id: row for row in with_catalog(made, lambda it: it.rows(probe))}


# --- the default ----------------------------------------------------------------------------------------------------


def test_the_default_is_what_is_set_else_the_first_configured_else_the_local_one() -> None:
    assert catalog("/x").default() == "local/smollm2"
    assert catalog("/x", local=LocalSettings(model="~/m/other.gguf")).default() == "local/other"
    assert catalog("/x", providers={"none": NOBODY, "acme": ACME}).default() == "acme/big"
    assert catalog("/x", providers={"acme": ACME}, model=ModelSettings(default="a/b")).default() == "a/b"


def test_no_name_means_the_default() -> None:
    provider, info = catalog("/x").resolve(None)
    assert (provider.name, info.id, info.tools) == ("local", "local/smollm2", False)


# --- names ----------------------------------------------------------------------------------------------------------


def test_a_configured_model_is_known_with_what_is_set() -> None:
    provider, info = catalog("/x", providers={"acme": ACME}).resolve("acme/big")
    assert provider.name == "acme"
    assert (info.name, info.context_length, info.max_output) == ("big", 9000, 700)
    assert (info.tools, info.vision) == (False, True)
    _, info = catalog("/x", providers={"acme": ACME}, model=ModelSettings(max_output=5)).resolve("acme/small")
    assert (info.tools, info.context_length, info.max_output) == (True, 128_000, 5)


def test_a_name_may_hold_slashes_and_a_provider_without_a_list_takes_any() -> None:
    _, info = catalog("/x", providers={"none": NOBODY}).resolve("none/org/model:free")
    assert (info.id, info.name) == ("none/org/model:free", "org/model:free")


def test_a_preset_is_known_without_being_configured() -> None:
    provider, info = catalog("/x").resolve("ollama/qwen3:8b")
    assert (provider.name, info.name) == ("ollama", "qwen3:8b")


def test_a_name_without_a_provider_is_found_when_it_is_the_only_one() -> None:
    other = ProviderSettings(base_url="http://o.test", models=("small",))
    assert catalog("/x", providers={"acme": ACME}).resolve("small")[1].id == "acme/small"
    with pytest.raises(Refused, match="Did you mean acme/small or o/small"):
        catalog("/x", providers={"acme": ACME, "o": other}).resolve("small")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("acme/bgi", "Did you mean acme/big"),
        ("acme/other-thing", "added under providers.acme.models"),
        ("acne/big", "acme/big"),
        ("openia/big", "acme/big"),
        ("scripted/ecko", "scripted/echo"),
        ("local/none", "hermes models pull"),
        ("zzzzqqqq", "hermes models` lists"),
        ("acme/", "provider/name"),
        ("local/../x", "provider/name"),
    ],
)
def test_an_unknown_model_names_the_nearest(tmp_path: Path, model: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        catalog(tmp_path, providers={"acme": ACME}).resolve(model)
    assert caught.value.kind == "invalid_params"
    assert repr(model) in caught.value.reason


def test_a_scripted_model_answers() -> None:
    async def use(it: Catalog) -> None:
        provider, info = it.resolve("scripted/words?n=3")
        assert (await answer(provider, asking("x", info.name))).message.text == "word0 word1 word2"

    with_catalog(catalog("/x"), use)


def test_a_fetched_model_is_known(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.gguf").write_bytes(b"GGUF")
    assert catalog(tmp_path).resolve("local/m")[1].id == "local/m"
    assert "local/m" in rows_of(catalog(tmp_path))


# --- presets --------------------------------------------------------------------------------------------------------


def test_a_presets_key_goes_only_to_the_presets_address() -> None:
    assert with_preset("openai", ProviderSettings()).api_key_env == "OPENAI_API_KEY"
    elsewhere = ProviderSettings(base_url="http://elsewhere.test")
    assert with_preset("openai", elsewhere) == elsewhere
    assert with_preset("acme", ACME) == ACME
    assert all(preset.base_url.startswith("http") for name, preset in PRESETS.items() if name != "azure")


# --- rows -----------------------------------------------------------------------------------------------------------


def test_rows_say_what_is_missing(tmp_path: Path) -> None:
    rows = rows_of(catalog(tmp_path, providers={"acme": ACME, "none": NOBODY}))
    assert (rows["acme/big"].state, rows["acme/big"].note) == ("missing", "set ACME_KEY")
    assert rows["acme/big"].default
    assert rows["none/…"].state == "ready"
    assert rows["local/smollm2"].state == "missing"
    assert "scripted/echo" in rows
    rows = rows_of(catalog(tmp_path, {"ACME_KEY": "k", "GROQ_API_KEY": "k"}, providers={"acme": ACME}))
    assert rows["acme/big"].state == "ready"
    assert "--probe" in rows["groq/…"].note
    assert "model.default groq/NAME" in rows_of(catalog(tmp_path, {"GROQ_API_KEY": "k"}))["local/smollm2"].note


def test_a_default_of_an_endpoint_without_a_list_stands_in_the_list(tmp_path: Path) -> None:
    chosen = rows_of(catalog(tmp_path, model=ModelSettings(default="ollama/org/small:7b")))["ollama/org/small:7b"]
    assert (chosen.provider, chosen.state, chosen.default) == ("ollama", "ready", True)
    keyed = rows_of(catalog(tmp_path, model=ModelSettings(default="openai/large")))["openai/large"]
    assert (keyed.state, keyed.note) == ("missing", "set OPENAI_API_KEY")
    listed = rows_of(catalog(tmp_path, providers={"acme": ACME}, model=ModelSettings(default="acme/slip")))
    assert "acme/slip" not in listed


def test_probing_asks_all_endpoints_and_says_which_are_down(tmp_path: Path) -> None:
    async def hanging(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.gone.wait()

    async def run() -> dict[str, ModelRow]:
        async with ScriptedHttp() as up, RawHttp(hanging) as silent:
            providers = {
                "up": ProviderSettings(base_url=up.base_url, models=("echo",)),
                "silent": ProviderSettings(base_url=silent.url, stall_timeout=0.1, models=("m",)),
                "down": ProviderSettings(base_url="http://127.0.0.1:1/v1"),
            }
            it = catalog(tmp_path, providers=providers)
            rows = await it.rows(True)
            await it.rows(True)
            assert len(up.requests) == 1  # kept
            assert it.resolve("up/hang")[1].id == "up/hang"  # not configured, but the endpoint lists it
            await it.close()
            return {row.id: row for row in rows}

    rows = asyncio.run(run())
    assert rows["up/echo"].state == rows["up/hang"].state == "ready"
    assert rows["silent/m"].state == "unreachable"
    assert "connection refused" in rows["down/…"].note


def test_the_window_an_endpoint_tells_is_taken_over(tmp_path: Path) -> None:
    listed = [{"id": "a", "context_length": 5000}, {"id": "b", "meta": {"n_ctx": 6000}}, {"id": "c"}, {"no": "id"}]

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.answer(200, json.dumps({"data": listed}).encode())

    async def run() -> None:
        async with RawHttp(handler) as server:
            it = catalog(tmp_path, providers={"p": ProviderSettings(base_url=server.url)})
            await it.rows(True)
            windows = [it.resolve(f"p/{name}")[1].context_length for name in "abc"]
            assert windows == [5000, 6000, 128_000]
            await it.close()

    asyncio.run(run())


# --- what is learned ------------------------------------------------------------------------------------------------


def test_a_refusal_that_names_the_window_is_remembered_over_restarts(tmp_path: Path) -> None:
    words = "This model's maximum context length is 8,192 tokens. However, you requested 9000."

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        if request.method == "GET":
            row = {"id": "m", "max_model_len": 16_000}
            await connection.answer(200, json.dumps({"data": [row]}).encode())
        else:
            await connection.answer(400, json.dumps({"error": {"message": words}}).encode())

    async def run() -> None:
        async with RawHttp(handler) as server:
            providers = {"p": ProviderSettings(base_url=server.url)}
            it = catalog(tmp_path, providers=providers)
            provider, info = it.resolve("p/m")
            assert info.context_length == 128_000
            _, failure = await collect(provider, asking("x"))
            assert failure is not None
            assert (failure.kind, failure.context_limit) == ("context_overflow", 8192)
            assert it.resolve("p/m")[1].context_length == 8192
            await it.close()
            again = catalog(tmp_path, providers=providers)
            assert again.resolve("p/m")[1].context_length == 8192
            await again.rows(True)  # what the endpoint tells later is newer
            assert again.resolve("p/m")[1].context_length == 16_000
            again.learn_limit("p/m", 4000)
            assert again.resolve("p/m")[1].context_length == 4000
            await again.close()

    asyncio.run(run())


def test_a_list_is_kept_on_disk_and_asked_for_again_when_it_is_old(tmp_path: Path) -> None:
    async def run() -> None:
        async with ScriptedHttp() as server:
            providers = {"p": ProviderSettings(base_url=server.base_url)}
            for at, asked in ((1000.0, 1), (1200.0, 1), (1301.0, 2), (900.0, 3)):
                it = Catalog(Settings(providers=providers), {}.get, str(tmp_path), now=lambda at=at: at)
                assert "p/echo" in {row.id for row in await it.rows(True)}
                assert len(server.requests) == asked
                await it.close()
            later = Catalog(Settings(providers=providers), {}.get, str(tmp_path))
            assert "p/echo" in {row.id for row in await later.rows(False)}  # without asking anybody
            assert len(server.requests) == 3
            await later.close()

    asyncio.run(run())


def test_rows_show_prices_and_abilities_where_they_are_known(tmp_path: Path) -> None:
    settings = ProviderSettings(models=("gpt-4o-mini", "nobody-knows"))
    rows = rows_of(catalog(tmp_path, {"OPENAI_API_KEY": "k"}, providers={"openai": settings}))
    known, unknown = rows["openai/gpt-4o-mini"], rows["openai/nobody-knows"]
    assert (known.input_price, known.output_price, known.vision, known.reasoning) == (0.15, 0.6, True, False)
    assert (known.context_length, known.max_output) == (128_000, 16_384)
    assert (unknown.input_price, unknown.output_price, unknown.vision) == (None, None, None)
    assert known.price_from.startswith("bundled 20")
    own = ModelEntry("gpt-4o-mini", input_price=1.0, output_price=2.0)
    rows = rows_of(catalog(tmp_path, {"OPENAI_API_KEY": "k"}, providers={"openai": ProviderSettings(models=(own,))}))
    priced = rows["openai/gpt-4o-mini"]
    assert (priced.input_price, priced.price_from) == (1.0, "settings")  # the configuration wins


def test_a_cost_is_told_for_a_known_price_and_absent_for_half_of_one(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    answered = json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": usage})

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        await connection.answer(200, answered.encode())

    async def run() -> list[float | None]:
        async with RawHttp(handler) as server:
            priced = ModelEntry("m", input_price=2.0, output_price=10.0)
            entries = (priced, ModelEntry("half", input_price=2.0), "none")
            it = catalog(tmp_path, providers={"p": ProviderSettings(base_url=server.url, models=entries)})
            costs = []
            for name in ("m", "half", "none"):
                provider, info = it.resolve(f"p/{name}")
                reply = await answer(provider, asking("x", info.name))
                assert reply.usage is not None
                costs.append(reply.usage.cost)
            await it.close()
            return costs

    assert asyncio.run(run()) == [pytest.approx(0.003), None, None]


def test_several_keys_are_missing_only_when_all_are(tmp_path: Path) -> None:
    both = ProviderSettings(base_url="http://acme.test", api_key_env=("A", "B"), models=("m",))
    assert rows_of(catalog(tmp_path, providers={"acme": both}))["acme/m"].note == "set A or B"
    assert rows_of(catalog(tmp_path, {"B": "k"}, providers={"acme": both}))["acme/m"].state == "ready"
    stored = ProviderSettings(base_url="http://acme.test", api_key_env="keyring:acme/me", models=("m",))
    assert rows_of(catalog(tmp_path, providers={"acme": stored}))["acme/m"].state == "ready"  # not asked for a list


def test_a_key_s_place_is_the_one_that_is_looked_at_or_one_named_like_the_provider(tmp_path: Path) -> None:
    lab = ProviderSettings(base_url="http://lab.test", api_key_env=("file:/k", "LAB"))
    it = catalog(tmp_path, providers={"lab": lab, "my-own": ProviderSettings(base_url="http://own.test")})
    assert it.key_source("lab", "env") == "LAB"
    assert it.key_source("lab", "keyring") == "keyring:hermes-daemon/lab"
    assert it.key_source("my-own", "env") == "MY_OWN_API_KEY"
    assert it.key_source("openrouter", "env") == "OPENROUTER_API_KEY"
    with pytest.raises(Refused, match="no provider 'labb'"):
        it.key_source("labb", "env")


def test_keys_are_listed_by_place_without_reading_key_stores(tmp_path: Path) -> None:
    lab = ProviderSettings(base_url="http://lab.test", api_key_env=("keyring:a/b", f"file:{tmp_path}/none", "LAB"))
    rows = [row for row in catalog(tmp_path, {"LAB": "k"}, providers={"lab": lab}).auth_rows() if row.provider == "lab"]
    assert [(row.kind, row.state) for row in rows] == [
        ("keyring", "not read"), ("file", "missing"), ("variable", "set"),
    ]  # fmt: skip


def test_each_of_several_keys_is_tried(tmp_path: Path) -> None:
    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        good = request.headers["authorization"] == "Bearer good"
        body = {"data": [{"id": "m"}]} if good else {"error": {"message": "no"}}
        await connection.answer(200 if good else 401, json.dumps(body).encode())

    async def run() -> list[tuple[str, bool, str]]:
        async with RawHttp(handler) as server:
            lab = ProviderSettings(base_url=server.url, api_key_env=("A", "B", "C"))
            it = catalog(tmp_path, {"A": "bad", "B": "good"}, providers={"lab": lab})
            tests = await it.test_keys("lab")
            await it.close()
            return [(row.source, row.ok, row.kind) for row in tests]

    assert asyncio.run(run()) == [("A", False, "auth"), ("B", True, "ok"), ("C", False, "missing")]


def test_a_model_that_takes_no_such_effort_says_so_before_anything_is_sent(tmp_path: Path) -> None:
    entry = ModelEntry("m", efforts=("low",))

    async def use(it: Catalog) -> None:
        provider, info = it.resolve("p/m")
        assert info.efforts == ("low",)
        _, failure = await collect(provider, asking("x", info.name, thinking="max"))
        assert failure is not None
        assert (failure.kind, failure.retryable) == ("bad_request", False)
        assert "it takes low. Nothing was sent." in failure.message

    with_catalog(catalog(tmp_path, providers={"p": ProviderSettings(base_url="http://x.test", models=(entry,))}), use)


# --- changes --------------------------------------------------------------------------------------------------------


def test_changed_settings_give_a_new_endpoint_and_unchanged_ones_keep_theirs() -> None:
    async def use(it: Catalog) -> None:
        acme, none = it.resolve("acme/big")[0], it.resolve("none/m")[0]
        local = it.resolve("local/smollm2")[0]
        moved = ProviderSettings(base_url="http://new.test", models=("big",))
        it.update(Settings(providers={"acme": moved, "none": NOBODY}, local=LocalSettings(threads=1)))
        assert it.resolve("acme/big")[0] is not acme
        assert it.resolve("none/m")[0] is none
        assert it.resolve("local/smollm2")[0] is not local

    with_catalog(catalog("/x", providers={"acme": ACME, "none": NOBODY}), use)
