import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_daemon.config import load
from hermes_daemon.core.settings import Settings


def write(home: Path, text: str) -> str:
    (home / "config.yaml").write_text(text)
    return str(home)


def test_no_file_is_the_defaults_without_a_word(tmp_path: Path) -> None:
    loaded = load(str(tmp_path), {})
    assert loaded.settings == Settings()
    assert loaded.path == str(tmp_path / "config.yaml")
    assert not loaded.warnings
    assert not loaded.errors


def test_no_file_imports_no_yaml() -> None:
    code = (
        "import sys; from hermes_daemon.config import Configuration; Configuration('/nonexistent', {});"
        "print({'yaml', 'ruamel', 'difflib'} & sys.modules.keys())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert (result.stdout, result.stderr) == ("set()\n", "")


def test_a_wrong_type_names_file_line_key_and_expectation(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, "model:\n  default: a/b\nagent:\n  # rounds\n  max_rounds: many\n"), {})
    error = loaded.errors[0]
    assert str(error) == (
        f"{tmp_path}/config.yaml:5:3: agent.max_rounds: expected a whole number of at least 1, got the text 'many'"
    )
    assert (error.line, error.key) == (5, "agent.max_rounds")
    assert loaded.settings.model.default == "a/b"


def test_sources_name_the_line_or_the_variable(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, "agent:\n  max_rounds: 3\n  api_max_retries: 1\n"), {"HERMES_MAX_ITERATIONS": "9"})
    assert loaded.settings.agent.max_rounds == 9
    assert loaded.sources["agent.max_rounds"] == "HERMES_MAX_ITERATIONS"
    assert loaded.sources["agent.api_max_retries"] == "config.yaml:3"


def test_yolo_turns_questions_off_and_says_so(tmp_path: Path) -> None:
    home = write(tmp_path, "approvals:\n  mode: manual\n  deny: [x]\n")
    loaded = load(home, {"HERMES_YOLO_MODE": "1"})
    assert loaded.settings.approvals.mode == "off"
    assert loaded.settings.approvals.deny == ("x",)
    assert "HERMES_YOLO_MODE" in loaded.warnings[0]
    assert load(home, {"HERMES_YOLO_MODE": "0"}).settings.approvals.mode == "manual"


@pytest.mark.parametrize(("variable", "value"), [("HERMES_YOLO_MODE", "maybe"), ("HERMES_MAX_ITERATIONS", "-1")])
def test_a_variable_that_does_not_fit_is_an_error_naming_it(tmp_path: Path, variable: str, value: str) -> None:
    errors = load(str(tmp_path), {variable: value}).errors
    assert str(errors[0]).startswith(f"{variable}: expected")


def test_other_files_can_be_named_and_the_users_can_be_ignored(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("agent: {max_rounds: 5}")
    env = tmp_path / "other.env"
    env.write_text("K=v")
    env.chmod(0o600)
    environ = {"HERMES_CONFIG_PATH": str(tmp_path / "other.yaml"), "HERMES_ENV_PATH": str(env)}
    loaded = load("/nonexistent", environ)
    assert loaded.settings.agent.max_rounds == 5
    assert loaded.secret("K") == "v"
    ignoring = load("/nonexistent", {**environ, "HERMES_IGNORE_USER_CONFIG": "1"})
    assert ignoring.settings == Settings()


def test_a_secret_may_stand_in_a_header_and_is_marked(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text("TOKEN=t0p")
    env.chmod(0o600)
    text = "providers:\n  lab:\n    headers:\n      Authorization: Bearer ${TOKEN}\n      X-Plain: ${USER}\n"
    loaded = load(write(tmp_path, text), {"USER": "me"})
    assert loaded.settings.providers["lab"].headers == {"Authorization": "Bearer t0p", "X-Plain": "me"}
    assert loaded.masked == {"providers.lab.headers.Authorization"}
    assert "t0p" not in repr(loaded.secret)


def test_a_file_that_is_no_text_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"model:\n  default: \xff\n")
    assert str(load(str(tmp_path), {}).errors[0]).endswith("config.yaml:2:12: is not UTF-8: byte 0xff")


def test_what_is_no_file_is_an_error_and_nothing_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.yaml")
    assert "is not a file" in str(load(str(tmp_path), {}).errors[0])


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "config.yaml").open("wb") as file:
        file.truncate(5_000_000)
    assert "is longer than" in str(load(str(tmp_path), {}).errors[0])


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"\xef\xbb\xbfagent: {max_rounds: 2}\n")
    loaded = load(str(tmp_path), {})
    assert loaded.settings.agent.max_rounds == 2
    assert not loaded.warnings
