from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.core.ports import ProviderFailure, TextDelta, ToolSpec
from hermes_daemon.core.settings import LocalSettings
from hermes_daemon.providers.local import Local
from tests.support.model_streams import answer, asking, collect

CHILD = str(Path(__file__).parents[1] / "support" / "fake_engine" / "child.py")
ENGINE = (sys.executable, "-P", CHILD, "engine")


class Ledger:
    """ports.Processes that remembers, and lets a test wait for an end."""

    def __init__(self) -> None:
        self.rows: dict[int, str] = {}
        self.begun = 0
        self.gone = asyncio.Event()

    async def started(self, pid: int, marker: str, command: str) -> None:
        self.rows[pid] = command
        self.marker = marker
        self.begun += 1

    async def ended(self, pid: int) -> None:
        del self.rows[pid]
        self.gone.set()


def run(
    folder: Path,
    use: Callable[[Local, Ledger], Awaitable[Any]],
    behaviour: str = "serve",
    command: tuple[str, ...] = ENGINE,
    **settings: Any,
) -> Any:
    (folder / "smollm2.gguf").write_text(behaviour)

    async def main() -> Any:
        ledger = Ledger()
        local = Local(LocalSettings(**settings), str(folder), processes=ledger, command=command)
        try:
            return await use(local, ledger)
        finally:
            await local.close()
            assert ledger.rows == {}

    return asyncio.run(main())


def failure_of(folder: Path, **more: Any) -> ProviderFailure:
    async def use(local: Local, ledger: Ledger) -> ProviderFailure:
        _, failure = await collect(local, asking("hi", "smollm2"))
        assert failure is not None
        assert (failure.kind, failure.provider) == ("local", "local")
        return failure

    return run(folder, use, **more)


def test_the_process_starts_with_the_first_request_and_serves_the_next(tmp_path: Path) -> None:
    async def use(local: Local, ledger: Ledger) -> None:
        assert ledger.rows == {}
        for model in ("smollm2", "local/smollm2"):
            assert (await answer(local, asking("hi", model))).message.text == "half"
        assert list(ledger.rows.values()) == ["local model smollm2"]
        assert ledger.begun == 1
        assert ledger.marker in Path(f"/proc/{local.pid('smollm2')}/cmdline").read_text()

    run(tmp_path, use)


def test_requests_that_come_together_start_one_process(tmp_path: Path) -> None:
    async def use(local: Local, ledger: Ledger) -> None:
        await asyncio.gather(*(answer(local, asking("hi", "smollm2")) for _ in range(4)))
        assert ledger.begun == 1

    run(tmp_path, use)


def test_an_idle_process_is_stopped_and_started_again_when_needed(tmp_path: Path) -> None:
    async def use(local: Local, ledger: Ledger) -> None:
        await answer(local, asking("hi", "smollm2"))
        await asyncio.wait_for(ledger.gone.wait(), 10)
        assert local.pid("smollm2") is None
        await answer(local, asking("hi", "smollm2"))
        assert ledger.begun == 2

    run(tmp_path, use, idle_s=0.01)


def test_a_retired_process_ends_with_its_last_request_whatever_its_idle_time(tmp_path: Path) -> None:
    async def use(local: Local, ledger: Ledger) -> None:
        await answer(local, asking("hi", "smollm2"))
        local.retire()
        await asyncio.wait_for(ledger.gone.wait(), 10)
        assert local.pid("smollm2") is None
        ledger.gone.clear()
        await answer(local, asking("hi", "smollm2"))
        await asyncio.wait_for(ledger.gone.wait(), 10)

    run(tmp_path, use, idle_s=600)


def test_a_process_that_dies_in_an_answer_is_told_and_replaced(tmp_path: Path) -> None:
    async def use(local: Local, ledger: Ledger) -> None:
        chunks, failure = await collect(local, asking("die", "smollm2"))
        assert chunks == [TextDelta("half")]
        assert failure is not None
        assert (failure.kind, failure.retryable) == ("local", True)
        assert "killed by signal 9" in failure.message
        assert "out of luck" in failure.message
        assert (await answer(local, asking("hi", "smollm2"))).message.text == "half"

    run(tmp_path, use)


def test_a_process_killed_while_idle_is_replaced(tmp_path: Path) -> None:
    async def use(local: Local, ledger: Ledger) -> None:
        await answer(local, asking("hi", "smollm2"))
        pid = local.pid("smollm2")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await asyncio.wait_for(ledger.gone.wait(), 10)
        assert (await answer(local, asking("hi", "smollm2"))).message.text == "half"

    run(tmp_path, use)


def test_a_conversation_that_does_not_fit_is_an_overflow(tmp_path: Path) -> None:
    async def use(local: Local, ledger: Ledger) -> None:
        tools = (ToolSpec("t", "", {}),)
        _, failure = await collect(local, asking("long", "smollm2", tools=tools))
        assert failure is not None
        assert failure.kind == "context_overflow"
        assert "4096 tokens (local.context_length)" in failure.message

    run(tmp_path, use)


def test_a_model_that_does_not_load_gives_its_last_words(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, behaviour="fail")
    assert "did not load" in failure.message
    assert "the tensors are upside down" in failure.message
    assert not failure.retryable


def test_a_model_that_does_not_get_ready_is_given_up(tmp_path: Path) -> None:
    assert "0.3 s (local.start_timeout)" in failure_of(tmp_path, behaviour="slow", start_timeout=0.3).message


def test_without_the_extra_the_command_that_installs_it_is_told(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, command=(sys.executable, "-P", CHILD, "none"))
    assert "pip install 'hermes-daemon[local]'" in failure.message


def test_a_child_that_cannot_start_or_says_nothing_is_told(tmp_path: Path) -> None:
    assert "did not start" in failure_of(tmp_path, command=("/no/such/python",)).message
    assert "did not load" in failure_of(tmp_path, command=("/bin/true",)).message


def test_a_missing_model_names_the_command_that_fetches_it(tmp_path: Path) -> None:
    async def use(local: Local, ledger: Ledger) -> None:
        (tmp_path / "smollm2.gguf").unlink()
        _, failure = await collect(local, asking("hi", "smollm2"))
        assert failure is not None
        assert "`hermes models pull smollm2`" in failure.message

    run(tmp_path, use)


def test_a_configured_path_is_used(tmp_path: Path) -> None:
    path = tmp_path / "else" / "mine.gguf"
    path.parent.mkdir()
    path.write_text("serve")

    async def use(local: Local, ledger: Ledger) -> None:
        assert (await answer(local, asking("hi", "mine"))).message.text == "half"

    run(tmp_path, use, model=str(path))


def test_the_log_file_keeps_what_the_engine_said(tmp_path: Path) -> None:
    (tmp_path / "smollm2.gguf").write_text("serve")
    log = tmp_path / "logs" / "local.log"

    async def main() -> None:
        local = Local(LocalSettings(), str(tmp_path), log_path=str(log), command=ENGINE)
        await answer(local, asking("hi", "smollm2"))
        await local.close()
        await local.close()

    asyncio.run(main())
    assert "loading" in log.read_text()


def test_what_is_known_of_a_local_model() -> None:
    info = Local(LocalSettings(context_length=1000), "/nowhere").info("smollm2")
    assert (info.id, info.tools, info.context_length, info.max_output) == ("local/smollm2", False, 1000, 500)


OWNER = """
import asyncio, sys
from hermes_daemon.core.settings import LocalSettings
from hermes_daemon.providers.local import Local
from tests.support.model_streams import answer, asking

async def main():
    local = Local(LocalSettings(), sys.argv[1], command=sys.argv[2:])
    await answer(local, asking("hi", "smollm2"))
    print(local.pid("smollm2"), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open to wait for a foreign process")
def test_the_child_dies_with_a_killed_daemon(tmp_path: Path) -> None:
    (tmp_path / "smollm2.gguf").write_text("serve")
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root}:{root / 'protocol'}"}
    command = [sys.executable, "-c", OWNER, str(tmp_path), *ENGINE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as owner:
        assert owner.stdout is not None
        child = os.pidfd_open(int(owner.stdout.readline()))
        owner.kill()
    try:
        readable, _, _ = select.select([child], [], [], 10)
        assert readable == [child]
    finally:
        os.close(child)
