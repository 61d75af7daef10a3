from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from hermes_daemon.core.settings import ProviderSettings
from hermes_daemon.providers.credentials import CredentialError, Key, Keys, keep_in_keyring
from hermes_daemon.providers.http_provider import HttpProvider
from tests.support.model_streams import answer, asking, collect
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp

HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def values(keys: Keys) -> list[str]:
    return [key.value for key in asyncio.run(keys.usable())]


def test_keys_come_in_the_order_they_are_named_and_missing_ones_are_left_out() -> None:
    keys = Keys(("A", "B", "C"), {"A": " a\n", "C": "c"}.get, Clock())
    assert values(keys) == ["a", "c"]
    assert repr(Key("A", "hidden")) == "Key('A')"


def test_a_key_that_rests_is_tried_last_until_its_time_is_over() -> None:
    clock = Clock()
    keys = Keys(("A", "B"), {"A": "a", "B": "b"}.get, clock)
    keys.rest(Key("A", "a"), 30)
    assert values(keys) == ["b", "a"]
    keys.rest(Key("B", "b"), 60)
    assert values(keys) == ["a", "b"]
    clock.at += 61
    assert values(keys) == ["a", "b"]


def test_a_key_file_has_to_be_private(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("secret\n")
    path.chmod(0o644)
    keys = Keys((f"file:{path}",), {}.get, Clock())
    with pytest.raises(CredentialError, match="chmod 600"):
        values(keys)
    path.chmod(0o600)
    assert values(keys) == ["secret"]
    assert keys.values == {"secret"}
    with pytest.raises(CredentialError, match="cannot be read"):
        values(Keys((f"file:{tmp_path}/none",), {}.get, Clock()))


def test_a_source_that_is_none_is_told() -> None:
    with pytest.raises(CredentialError, match="name a variable"):
        values(Keys(("vault:x",), {}.get, Clock()))
    assert values(Keys(("vault:x", "A"), {"A": "a"}.get, Clock())) == ["a"]  # another one will do


def test_the_key_store_is_asked() -> None:
    keyring = pytest.importorskip("keyring", reason="keyring is not installed")
    from keyring.backend import KeyringBackend

    class Store(KeyringBackend):
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            return "stored" if (service, username) == ("acme", "me") else None

        def set_password(self, service: str, username: str, password: str) -> None:
            raise NotImplementedError

        def delete_password(self, service: str, username: str) -> None:
            raise NotImplementedError

    before = keyring.get_keyring()
    keyring.set_keyring(Store())
    try:
        assert values(Keys(("keyring:acme/me",), {}.get, Clock())) == ["stored"]
        assert values(Keys(("keyring:acme/you",), {}.get, Clock())) == []
        with pytest.raises(CredentialError, match="keyring:SERVICE/USER"):
            values(Keys(("keyring:acme",), {}.get, Clock()))
    finally:
        keyring.set_keyring(before)


def test_a_key_is_put_into_the_key_store_and_taken_out() -> None:
    keyring = pytest.importorskip("keyring", reason="keyring is not installed")
    from keyring.backend import KeyringBackend

    kept: dict[tuple[str, str], str] = {}

    class Store(KeyringBackend):
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            return kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            kept[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del kept[service, username]

    before = keyring.get_keyring()
    keyring.set_keyring(Store())
    try:
        keys = Keys(("keyring:hermes/lab",), {}.get, Clock())
        keep_in_keyring("hermes/lab", "first")
        assert values(keys) == ["first"]
        keep_in_keyring("hermes/lab", "second")
        assert values(keys) == ["first"]  # what was read is kept until it is refused, or changed by us
        keys.forget("keyring:hermes/lab")
        assert values(keys) == ["second"]
        assert keys.values == {"first", "second"}  # the old one stays a secret
        keep_in_keyring("hermes/lab", None)
        keep_in_keyring("hermes/lab", None)
        assert kept == {}
    finally:
        keyring.set_keyring(before)


def test_whoever_wants_to_know_is_told_of_a_key_once_it_was_read(tmp_path: Path) -> None:
    told: list[frozenset[str]] = []
    path = tmp_path / "key"
    path.write_text("secret")
    path.chmod(0o600)
    keys = Keys((f"file:{path}", "A"), {"A": "a"}.get, Clock(), lambda: told.append(keys.values))
    values(keys)
    values(keys)
    assert told == [frozenset({"secret"})]


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(CredentialError, match=r"hermes-daemon\[keyring\]"):
        values(Keys(("keyring:acme/me",), {}.get, Clock()))


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (429, "rate"), (402, "quota")])
def test_a_refused_key_is_followed_by_the_next_at_once_and_rests(status: int, kind: str) -> None:
    asked: list[str] = []

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        asked.append(request.headers["authorization"])
        if asked[-1] == "Bearer bad":
            await connection.answer(status, json.dumps({"error": {"message": "no"}}).encode())
            return
        await connection.begin_stream()
        await connection.piece(HELLO)
        await connection.end_stream()

    async def run() -> None:
        async with RawHttp(handler) as server:
            settings = ProviderSettings(base_url=server.url, api_key_env=("A", "B"))
            provider = HttpProvider("acme", settings, {"A": "bad", "B": "good"}.get, now=Clock())
            for _ in range(2):
                assert (await answer(provider, asking("x"))).message.text == "Hello"
            assert asked == ["Bearer bad", "Bearer good", "Bearer good"]
            await provider.close()
            lone = HttpProvider("acme", settings, {"A": "bad", "B": "bad"}.get, now=Clock())
            _, failure = await collect(lone, asking("x"))
            assert failure is not None
            assert failure.kind == kind
            assert len(asked) == 5  # each once
            await lone.close()

    asyncio.run(run())


def test_no_key_at_all_names_every_place_that_was_looked_at() -> None:
    async def run() -> None:
        settings = ProviderSettings(base_url="http://127.0.0.1:1", api_key_env=("A", "B"))
        _, failure = await collect(HttpProvider("acme", settings, {}.get), asking("x"))
        assert failure is not None
        assert failure.kind == "auth"
        assert "set A or B" in failure.message

    asyncio.run(run())
