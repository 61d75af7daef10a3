"""What a repository may hold that no tool should choke on: binary, huge and linked files, through the whole daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_shell import Shell
from tests.support.recording_endpoint import call, calls, error, recording_endpoint, text


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as made:
        yield made


def configure(shell: Shell, config: str) -> None:
    home = Path(shell.env["HERMES_HOME"])
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(config)


def test_binary_huge_and_linked_files_are_answered_with_a_sentence(shell: Shell, tmp_path: Path) -> None:
    work = shell.work
    (work / "image.bin").write_bytes(bytes(range(256)) * 64)
    with (work / "huge.txt").open("wb") as huge:
        huge.truncate(64 * 1024 * 1024)
    outside = tmp_path / "outside.txt"
    outside.write_text("not yours\n")
    (work / "link.txt").symlink_to(outside)
    (work / "loop").symlink_to("loop")
    asked = ["image.bin", "huge.txt", "link.txt", "loop", "absent.txt", ".", "/dev/zero"]
    made = [call("read_file", {"path": path}, f"r{n}") for n, path in enumerate(asked)]
    made.append(call("write_file", {"path": "link.txt", "content": "mine"}, "w"))
    made.append(call("terminal", {"command": "head -c 3000000 /dev/zero | tr '\\0' 'x'"}, "t"))
    with recording_endpoint(calls(*made), text("seen")) as endpoint:
        configure(shell, endpoint.config())
        done = shell.run("chat", "--yolo", "-q", "look")
        assert (done.returncode, done.stdout) == (0, "seen\n"), done.stderr
        told = endpoint.results()
    assert "binary" in told[0]
    assert "MB" in told[1] or "bytes" in told[1]
    for link in (told[2], told[7]):
        assert "outside" in link
        assert "not yours" not in link
    assert all(told[number] for number in range(3, 7))
    assert len(told[8]) < 60_000
    assert outside.read_text() == "not yours\n"


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (
            "<html><head><title>502</title></head><body><h1>Bad Gateway</h1>nginx</body></html>",
            "text/html",
            "Bad Gateway",
        ),
        ("", "text/plain", "answered 502."),
        ('{"detail": [{"msg": "field required"}]}', "application/json", "field required"),
        ("x" * 100_000, "text/plain", "xxx…"),
    ],
)
def test_error_bodies_of_every_shape_become_one_line(shell: Shell, body: str, kind: str, sentence: str) -> None:
    with recording_endpoint(error(502, body, content_type=kind)) as endpoint:
        configure(shell, endpoint.config())
        done = shell.run("chat", "-q", "hi")
        assert done.returncode == 1
        [first] = done.stderr.splitlines()
        assert f"{endpoint.base_url}/chat/completions answered 502" in first
        assert sentence in first
        assert "<" not in first
        assert len(first) < 800
