"""Threads for callables that are not async."""

import asyncio
import contextvars
import threading

import pytest

from hermes_daemon.middleware.workers import Workers

word: contextvars.ContextVar[str] = contextvars.ContextVar("word")


def test_a_call_runs_in_another_thread_with_the_callers_context() -> None:
    async def run() -> tuple[str, int]:
        word.set("here")
        return await Workers().run(lambda: (word.get(), threading.get_ident()))

    said, thread = asyncio.run(run())
    assert said == "here"
    assert thread != threading.get_ident()


def test_an_error_comes_to_who_waits() -> None:
    def fails() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(Workers().run(fails))


def test_a_call_that_hangs_holds_up_no_other_and_is_counted_until_it_ends() -> None:
    release = threading.Event()
    counts: list[int] = []

    async def run() -> None:
        workers = Workers()
        hanging = asyncio.create_task(workers.run(release.wait, counts.append))
        assert await workers.run(lambda: 1) == 1
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert counts == [1]
        release.set()
        while counts != [1, -1]:
            await asyncio.sleep(0)

    asyncio.run(run())


def test_a_thread_is_used_again() -> None:
    async def run() -> set[int]:
        workers = Workers()
        threads = set()
        for _ in range(5):
            threads.add(await workers.run(threading.get_ident))
            while not workers.idle:
                await asyncio.sleep(0)
        workers.close()
        return threads

    assert len(asyncio.run(run())) == 1
