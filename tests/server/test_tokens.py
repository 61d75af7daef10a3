"""The token file, and what a wrong token costs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hermes_daemon.server.tokens import LONGEST_PAUSE_S, MAX_ADDRESSES, TokenFileError, Tokens
from hermes_protocol.errors import ProtocolError

HERE = "192.0.2.1"


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(tmp_path: Path) -> tuple[Tokens, str, Time]:
    clock = Time()
    tokens = Tokens(str(tmp_path / "token"), clock)
    tokens.ensure()
    return tokens, (tmp_path / "token").read_text().strip(), clock


def refused(tokens: Tokens, token: str, address: str = HERE) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        tokens.check(token, address)
    return caught.value


def test_it_is_made_once_with_32_random_bytes_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        tokens, token, _ = made(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert len(token) == 43
    tokens.ensure()
    assert (tmp_path / "token").read_text().strip() == token
    assert os.listdir(tmp_path) == ["token"]
    assert made_elsewhere(tmp_path) != token


def made_elsewhere(tmp_path: Path) -> str:
    (tmp_path / "other").mkdir()
    return made(tmp_path / "other")[1]


def test_the_right_one_is_let_in_and_a_new_one_counts_at_once(tmp_path: Path) -> None:
    tokens, token, _ = made(tmp_path)
    tokens.check(token, HERE)
    (tmp_path / "token").write_text("a-token-of-my-own-choice\n")
    tokens.check("a-token-of-my-own-choice", HERE)
    assert refused(tokens, token).kind == "auth_failed"


def test_none_is_told_from_a_wrong_one_and_neither_is_repeated(tmp_path: Path) -> None:
    tokens, token, _ = made(tmp_path)
    assert refused(tokens, "").kind == "auth_required"
    for wrong in ("guess-of-a-token", token[:-1], token + "x", "\ud800", "ünïcode"):
        error = refused(tokens, wrong, f"192.0.2.{len(wrong)}")
        assert error.kind == "auth_failed"
        assert wrong not in error.message
        assert token not in error.message


def test_after_five_wrong_ones_an_address_waits_longer_each_time(tmp_path: Path) -> None:
    tokens, token, clock = made(tmp_path)
    assert all("retryAfterMs" not in refused(tokens, "wrong").data for _ in range(4))
    pauses = []
    for _ in range(10):
        told = refused(tokens, "wrong").data["retryAfterMs"]
        assert refused(tokens, token).data["retryable"] is True  # the right one is not even looked at
        pauses.append(told)
        clock.now += told / 1000
    assert pauses == sorted(pauses)
    assert pauses[0] < 1100 < 1900 < pauses[1]
    assert pauses[-1] == LONGEST_PAUSE_S * 1000 + 1
    tokens.check(token, HERE)
    assert "retryAfterMs" not in refused(tokens, "wrong").data  # who knows it is forgiven


def test_no_token_at_all_is_no_failure(tmp_path: Path) -> None:
    tokens, token, _ = made(tmp_path)
    for _ in range(20):
        assert refused(tokens, "").kind == "auth_required"
    tokens.check(token, HERE)


def test_others_do_not_wait_for_one_address(tmp_path: Path) -> None:
    tokens, token, _ = made(tmp_path)
    for number in range(5):
        refused(tokens, "wrong", f"2001:db8:0:1::{number}")
    assert "retryAfterMs" in refused(tokens, token, "2001:db8:0:1:ffff::").data  # one network of one owner
    tokens.check(token, "2001:db8:0:2::")
    for _ in range(5):
        refused(tokens, "wrong", "::ffff:192.0.2.7")
    assert "retryAfterMs" in refused(tokens, token, "192.0.2.7").data
    tokens.check(token, HERE)


def test_what_is_remembered_of_failures_is_bounded(tmp_path: Path) -> None:
    tokens, _, _ = made(tmp_path)
    for number in range(MAX_ADDRESSES + 50):
        refused(tokens, "wrong", f"10.0.{number // 256}.{number % 256}")
    assert len(tokens._failed) == MAX_ADDRESSES


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused_with_the_sentence(tmp_path: Path, mode: int) -> None:
    tokens, token, _ = made(tmp_path)
    (tmp_path / "token").chmod(mode)
    with pytest.raises(TokenFileError, match=rf"token has mode {mode:04o}, expected 0600: `chmod 600` it"):
        tokens.ensure()
    assert "expected 0600" in refused(tokens, token).message


def test_what_is_no_token_is_refused(tmp_path: Path) -> None:
    tokens, _, _ = made(tmp_path)
    for text in ("", "short", "two words of a token", "naïve-token-in-letters"):
        (tmp_path / "token").write_text(text)
        with pytest.raises(TokenFileError, match="holds no token: expected one word of at least 16"):
            tokens.ensure()
    (tmp_path / "token").unlink()
    (tmp_path / "token").mkdir(0o700)
    with pytest.raises(TokenFileError, match="is not a regular file"):
        tokens.ensure()


def test_without_its_file_nobody_comes_in(tmp_path: Path) -> None:
    tokens, token, _ = made(tmp_path)
    (tmp_path / "token").unlink()
    assert "cannot be read: No such file" in refused(tokens, token).message


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="missing/token cannot be made: No such file or directory"):
        Tokens(str(tmp_path / "missing" / "token"), Time()).ensure()
