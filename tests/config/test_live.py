from pathlib import Path

import pytest

from hermes_daemon.config import Configuration
from hermes_daemon.core.ports import Refused
from hermes_daemon.core.settings import Settings


def configuration(home: Path, text: str) -> Configuration:
    (home / "config.yaml").write_text(text)
    return Configuration(str(home), {})


def test_a_broken_file_never_loses_the_last_good_settings(tmp_path: Path) -> None:
    live = configuration(tmp_path, "agent:\n  max_rounds: 3\n")
    before = live.current
    for broken in ("agent:\n\tmax_rounds: 4\n", "agent: {max_rounds: x}\n", "- a\n", "a: ${UNSET}\n"):
        (tmp_path / "config.yaml").write_text(broken)
        reload = live.reload()
        assert reload.errors
        assert not reload.changed
        assert live.current is before
        assert live.errors == reload.errors
    (tmp_path / "config.yaml").write_text("agent:\n  max_rounds: 5\n")
    assert live.reload().changed == ("agent.max_rounds",)
    assert live.current.agent.max_rounds == 5
    assert live.errors == ()


def test_a_broken_file_at_the_start_leaves_defaults_and_errors(tmp_path: Path) -> None:
    live = configuration(tmp_path, "agent: [\n")
    assert live.current == Settings()
    assert live.errors


def test_a_reload_names_every_key_that_changed_and_nothing_else(tmp_path: Path) -> None:
    live = configuration(tmp_path, "providers: {a: {base_url: u}}\nterminal: {timeout: 180}\n")
    (tmp_path / "config.yaml").write_text("providers: {b: {base_url: u}}\nterminal: {timeout: 180.0}\n")
    changed = live.reload().changed
    assert "providers.a.base_url" in changed
    assert "providers.b.base_url" in changed
    assert not [key for key in changed if key.startswith("terminal")]


def test_reload_reads_credentials_again(tmp_path: Path) -> None:
    live = configuration(tmp_path, "")
    env = tmp_path / ".env"
    env.write_text("K=v")
    env.chmod(0o600)
    assert live.secret("K") is None
    live.reload()
    assert live.secret("K") == "v"


def test_secret_values_are_all_of_the_credentials_file_and_the_keys_in_use(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text("A=abcdefgh\nB=\nC=abcdefgh\n")
    env.chmod(0o600)
    (tmp_path / "config.yaml").write_text("providers: {lab: {api_key_env: LAB_KEY}, other: {api_key_env: UNSET}}")
    live = Configuration(str(tmp_path), {"LAB_KEY": "from-environ", "PATH": "/usr/bin:/bin"})
    assert live.secret_values() == {"abcdefgh", "from-environ"}


def test_get_gives_value_and_source_of_leaves_sections_and_everything(tmp_path: Path) -> None:
    live = configuration(tmp_path, "agent:\n  max_rounds: 3\n")
    assert live.get("agent.max_rounds") == (3, "config.yaml:2")
    assert live.get("agent.api_max_retries") == (3, "default")
    section, source = live.get("agent")
    assert section["max_rounds"] == 3
    assert source == "config.yaml:1"
    assert live.get("")[0].keys() >= {"model", "providers", "agent"}


def test_get_refuses_an_unknown_key_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"no setting `max_round` in agent\. Did you mean `max_rounds`"):
        configuration(tmp_path, "").get("agent.max_round")


def test_get_masks_what_came_from_the_credentials_file(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text("TOKEN=t0p")
    env.chmod(0o600)
    live = configuration(tmp_path, "providers: {lab: {headers: {A: '${TOKEN}', B: plain}}}")
    assert live.get("providers.lab.headers")[0] == {"A": "[from .env]", "B": "plain"}
    assert live.get("providers.lab.headers.A")[0] == "[from .env]"
    assert "t0p" not in repr(live.get(""))


def test_set_writes_reads_again_and_tells_what_changed(tmp_path: Path) -> None:
    live = configuration(tmp_path, "# mine\nagent:\n  max_rounds: 3 # few\n")
    assert live.set("agent.max_rounds", 7).changed == ("agent.max_rounds",)
    assert live.current.agent.max_rounds == 7
    assert (tmp_path / "config.yaml").read_text() == "# mine\nagent:\n  max_rounds: 7 # few\n"
