"""The writer: order, groups, and what a lock or a full disk does to writes."""

from __future__ import annotations

import asyncio
import gc
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_daemon.core.ports import StorageError
from hermes_daemon.core.records import AddMessage, PutBlob, PutReceipt, ReceiptRow
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.sqlite import SqliteStore
from hermes_daemon.store.writer import LOCK_PATIENCE_S
from tests.support.store_disk import SmallDisk, small_disk
from tests.support.store_lock import locked_by_another_process
from tests.support.store_rows import HandClock, event, events, message, open_store, put_session, with_store


def add(text: str, session_id: str = "s1") -> AddMessage:
    return AddMessage(session_id=session_id, message=message(text))


def texts(store: SqliteStore, session_id: str = "s1") -> list[str]:
    return [m.text for m in store.messages(session_id)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def test_writes_are_kept_in_the_order_of_the_calls_also_when_awaited_in_another(path: Path) -> None:
    async def work(store: SqliteStore) -> list[str]:
        await store.write(put_session())
        waiting = [store.write(add(str(n)), durable=n % 3 == 0) for n in range(300)]
        for write in reversed(waiting):
            await write
        return texts(store)

    assert with_store(path, work) == [str(n) for n in range(300)]


def test_a_read_sees_every_write_that_was_awaited(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        for n in range(50):
            await store.write(add(str(n)), durable=False)
            assert texts(store)[-1] == str(n)

    with_store(path, work)


def test_a_write_is_all_or_nothing(path: Path) -> None:
    async def work(store: SqliteStore) -> list[str]:
        await store.write(put_session())
        with pytest.raises(WriteRejected, match="session s9 is unknown"):
            await store.write(add("kept only with the rest"), add("no", session_id="s9"))
        return texts(store)

    assert with_store(path, work) == []


def test_one_bad_write_in_a_group_fails_alone(path: Path) -> None:
    async def work(store: SqliteStore) -> tuple[list[object], list[str]]:
        await store.write(put_session(), events(event("s1", 1)))
        with locked_by_another_process(path) as lock:  # so that all of them stand in one group
            group = [store.write(add(str(n)), *([events(event("s1", 1))] if n == 5 else [])) for n in range(10)]
            await store.health_other_than("ok")
            lock.release()
            results = await asyncio.gather(*group, return_exceptions=True)
        return results, texts(store)

    results, kept = with_store(path, work)
    assert [n for n, result in enumerate(results) if result is not None] == [5]
    assert isinstance(results[5], WriteRejected)
    assert "1 of session s1" in str(results[5])
    assert kept == [str(n) for n in range(10) if n != 5]


def test_text_that_is_no_unicode_fails_its_own_write_only(path: Path) -> None:
    async def work(store: SqliteStore) -> list[str]:
        await store.write(put_session())
        bad, good = store.write(add("half a pair \ud83d")), store.write(add("good"))
        with pytest.raises(WriteRejected, match="surrogate"):
            await bad
        await good
        return texts(store)

    assert with_store(path, work) == ["good"]


def test_a_failed_write_that_nobody_awaits_shows_in_health_and_makes_no_noise(path: Path) -> None:
    noise: list[object] = []

    async def work(store: SqliteStore) -> tuple[str, str]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        store.write(add("no such session"))
        bad = await store.health_other_than("ok")
        gc.collect()
        await store.write(put_session())
        return bad, store.health

    bad, after = with_store(path, work)
    assert "session s1 is unknown" in bad
    assert after == "ok"
    assert noise == []


def test_a_cancelled_wait_does_not_take_the_write_back(path: Path) -> None:
    async def work(store: SqliteStore) -> list[str]:
        await store.write(put_session())
        waiting = asyncio.ensure_future(store.write(add("said")))
        waiting.cancel()
        await store.write(add("next"))
        return texts(store)

    assert with_store(path, work) == ["said", "next"]


def test_a_second_receipt_for_a_key_undoes_the_second_effect(path: Path) -> None:
    receipt = PutReceipt(
        row=ReceiptRow(scope="s1", method="hermes/turn/submit", key="k", body="h", receipt=b"{}", at="2026")
    )

    async def work(store: SqliteStore) -> list[str]:
        await store.write(put_session(), add("once"), receipt)
        with pytest.raises(WriteRejected, match="already has a receipt for key 'k'"):
            await store.write(add("twice"), receipt)
        return texts(store)

    assert with_store(path, work) == ["once"]


def test_several_event_loops_may_write_to_one_store(path: Path) -> None:
    store = open_store(path)

    async def writes(name: str) -> None:
        await store.write(put_session(name))
        await asyncio.gather(*(store.write(add(str(n), session_id=name)) for n in range(100)))

    threads = [threading.Thread(target=lambda n=name: asyncio.run(writes(n))) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [texts(store, name) for name in "abc"] == [[str(n) for n in range(100)]] * 3
    asyncio.run(store.close())


def test_closing_keeps_what_was_written_before_and_refuses_what_comes_after(path: Path) -> None:
    async def work() -> None:
        store = open_store(path)
        store.write(put_session())
        waiting = [store.write(add(str(n)), durable=False) for n in range(2000)]
        await store.close()
        await asyncio.gather(*waiting)
        with pytest.raises(StorageError, match="closed"):
            await store.write(add("late"))
        await store.close()

    asyncio.run(work())
    assert len(with_store(path, lambda store: asyncio.to_thread(texts, store))) == 2000


# --- a lock held by another process -----------------------------------------------------------------------------------


def test_a_lock_of_five_seconds_delays_a_write_and_loses_or_doubles_nothing(path: Path) -> None:
    clock = HandClock()

    async def work(store: SqliteStore) -> tuple[str, list[str], str]:
        with locked_by_another_process(path) as lock:
            writes = [store.write(put_session()), *(store.write(add(str(n))) for n in range(3))]
            told = await store.health_other_than("ok")
            clock.seconds += 5
            lock.release()
            await asyncio.gather(*writes)
        return told, texts(store), store.health

    told, kept, health = with_store(path, work, clock)
    assert "another process holds its lock" in told
    assert "4 writes wait in memory" in told
    assert kept == ["0", "1", "2"]
    assert health == "ok"


def test_a_lock_of_a_minute_fails_impatient_writes_and_keeps_patient_ones_in_memory(path: Path) -> None:
    clock = HandClock()

    async def work(store: SqliteStore) -> tuple[str, list[str], str]:
        await store.write(put_session())
        with locked_by_another_process(path) as lock:
            patient, impatient = store.write(add("patient"), patience=None), store.write(add("impatient"))
            await store.health_other_than("ok")
            clock.seconds += LOCK_PATIENCE_S
            with pytest.raises(StorageError, match="another process holds its lock"):
                await impatient
            clock.seconds += 50
            assert not patient.done()
            told = store.health
            lock.release()
            await patient
        await store.write(add("next"))
        return told, texts(store), store.health

    told, kept, health = with_store(path, work, clock)
    assert "lock" in told
    assert kept == ["patient", "next"]
    assert health == "ok"


def test_reads_go_on_while_another_process_holds_the_lock(path: Path) -> None:
    async def work(store: SqliteStore) -> list[str]:
        await store.write(put_session(), add("there"))
        with locked_by_another_process(path):
            return texts(store)

    assert with_store(path, work) == ["there"]


def test_a_store_opens_while_another_process_holds_the_lock(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session())

    with_store(path, work)
    with locked_by_another_process(path):
        assert with_store(path, lambda store: asyncio.to_thread(store.session, "s1")) is not None


def test_closing_gives_a_lock_its_time_and_then_fails_even_patient_writes(path: Path) -> None:
    clock = HandClock()

    async def work() -> None:
        store = open_store(path, clock)
        with locked_by_another_process(path):
            patient = store.write(put_session(), patience=None)
            await store.health_other_than("ok")
            closing = asyncio.ensure_future(store.close())
            await asyncio.sleep(0)
            clock.seconds += LOCK_PATIENCE_S
            with pytest.raises(StorageError, match="lock"):
                await patient
            await closing

    asyncio.run(work())


# --- a disk that is full or fails -------------------------------------------------------------------------------------


def test_a_full_disk_refuses_writes_at_once_and_the_next_one_works_when_there_is_room(disk: SmallDisk) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session(), add("before"))
        disk.fill()
        for _ in range(3):
            with pytest.raises(StorageError, match="the disk is full"):
                await store.write(add("x" * 100_000))
        assert "the disk is full" in store.health
        assert texts(store) == ["before"]
        disk.free()
        await store.write(add("after"))
        assert texts(store) == ["before", "after"]
        assert store.health == "ok"

    with_store(disk.path / "state.db", work)


def test_a_patient_write_waits_for_room_and_nothing_overtakes_it(disk: SmallDisk) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        disk.fill()
        patient = store.write(add("x" * 100_000), patience=None)
        await store.health_other_than("ok")
        with pytest.raises(StorageError, match="full"):
            await store.write(add("small, but later"))
        last = store.write(add("last"), patience=None)
        disk.free()
        await asyncio.gather(patient, last)
        assert [len(text) for text in texts(store)] == [100_000, 4]

    with_store(disk.path / "state.db", work)


def test_a_write_too_big_for_the_disk_does_not_fail_its_neighbours(disk: SmallDisk) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        disk.fill(leave=500_000)
        big = PutBlob(blob_id="b", session_id="s1", data=bytes(2_000_000))
        results = await asyncio.gather(*(store.write(op) for op in (add("1"), big, add("2"))), return_exceptions=True)
        assert [type(result) for result in results] == [type(None), StorageError, type(None)]
        assert texts(store) == ["1", "2"]
        assert store.blob("b", 0, 10) is None

    with_store(disk.path / "state.db", work)


def test_a_disk_that_fails_to_write_is_an_error_for_now_only(path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # any growth of a file now fails with EFBIG
        try:
            with pytest.raises(StorageError, match="failed"):
                await store.write(add("x" * 1_000_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await store.write(add("works"))
        assert texts(store) == ["works"]

    with_store(path, work)
