import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_daemon.config import load
from hermes_daemon.config.edit import change, from_words
from hermes_daemon.config.problem import parse_key
from hermes_daemon.config.secrets import Secrets
from hermes_daemon.core.ports import Refused


def put(path: Path, key: str, value: Any) -> None:
    change(str(path), parse_key(key), value, {}, Secrets({}, {}))


COMMENTED = """\
# top

model:
  default: a/b  # the good one
# about providers
providers:
  "my.lab":   # quoted
    base_url: 'http://x/v1'
    models:
      - one   # first
      - two
"""


def test_comments_quotes_and_order_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(COMMENTED)
    put(path, 'providers."my.lab".base_url', "http://y/v1")
    assert path.read_text() == COMMENTED.replace("http://x/v1", "http://y/v1")


def test_missing_sections_and_the_file_itself_are_made_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.yaml"
    put(path, "providers.lab.base_url", "http://x/v1")
    assert path.read_text() == "providers:\n  lab:\n    base_url: http://x/v1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["config.yaml"]


def test_a_file_of_comments_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("# one\n# two\n")
    put(path, "agent.max_rounds", 3)
    assert path.read_text() == "# one\n# two\nagent:\n  max_rounds: 3\n"


def test_mode_and_link_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text("agent: {}\n")
    real.chmod(0o640)
    link = tmp_path / "config.yaml"
    link.symlink_to(real)
    put(link, "agent.max_rounds", 3)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "max_rounds: 3" in real.read_text()


def test_nothing_is_written_when_the_value_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(COMMENTED)
    for key, value in (("agent.max_rounds", "x"), ("agent.max_rounds", 0), ("model", "a"), ("approvals.mode", "of")):
        with pytest.raises(Refused, match="expected"):
            put(path, key, value)
    assert path.read_text() == COMMENTED


def test_an_unknown_key_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"no setting `defualt` in model\. Did you mean `default`"):
        put(tmp_path / "config.yaml", "model.defualt", "x")
    with pytest.raises(Refused, match="no setting `zzz`"):
        put(tmp_path / "config.yaml", "zzz", "x")
    assert not (tmp_path / "config.yaml").exists()


def test_a_broken_file_is_left_alone_and_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    for text in ("agent:\n\tmax_rounds: 3\n", "agent: {max_rounds: x}\nmodel: {}\n"):
        path.write_text(text)
        with pytest.raises(Refused, match=r"config.yaml"):
            put(path, "model.default", "x")
        assert path.read_text() == text


def test_a_change_may_mend_the_fault_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("agent:\n  max_rounds: x\n")
    put(path, "agent.max_rounds", 4)
    assert load(str(tmp_path), {}).settings.agent.max_rounds == 4


def test_none_removes_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("agent:\n  max_rounds: 3\n  api_max_retries: 1\n")
    put(path, "agent.max_rounds", None)
    assert path.read_text() == "agent:\n  api_max_retries: 1\n"
    put(path, "terminal.timeout", None)
    assert path.read_text() == "agent:\n  api_max_retries: 1\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_text_is_read_back_as_it_was_set(tmp_path: Path, text: str) -> None:
    put(tmp_path / "config.yaml", "agent.system_prompt", text.replace("$", "$$"))
    loaded = load(str(tmp_path), {})
    assert not loaded.errors
    assert loaded.settings.agent.system_prompt == text


@pytest.mark.parametrize(
    ("key", "words", "value"),
    [
        ("agent.max_rounds", "50", 50),
        ("model.default", "50", "50"),
        ("approvals.mode", "off", "off"),
        ("display.markdown", "off", "off"),
        ("approvals.allow", "[a, 'b c']", ["a", "b c"]),
        ("model.max_output", "null", None),
        ("agent.system_prompt", "a: b # c", "a: b # c"),
        ("providers.lab", "{base_url: http://x}", {"base_url": "http://x"}),
    ],
)
def test_words_of_a_shell_become_what_the_setting_takes(key: str, words: str, value: Any) -> None:
    assert from_words(parse_key(key), words) == value


def test_words_that_fit_nothing_are_refused_with_the_expectation() -> None:
    with pytest.raises(Refused, match="expected a whole number of at least 1, got 'many'"):
        from_words(parse_key("agent.max_rounds"), "many")
