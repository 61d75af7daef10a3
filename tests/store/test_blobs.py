"""Blobs: appended, read in pages, bound to their session."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_daemon.core.records import PutBlob
from hermes_daemon.store.blobs import CHUNK_BYTES
from hermes_daemon.store.failures import WriteRejected
from hermes_daemon.store.sqlite import SqliteStore
from tests.support.store_rows import put_session, with_store

SIZES = st.sampled_from([0, 1, 10, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 7])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(sizes=st.lists(SIZES, min_size=1, max_size=4), spans=st.lists(st.tuples(SIZES, SIZES), max_size=6))
def test_any_page_of_a_blob_is_what_slicing_the_whole_gives(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], spans: list[tuple[int, int]]
) -> None:
    pieces = [bytes((place + n) % 251 for n in range(size)) for place, size in enumerate(sizes)]
    whole = b"".join(pieces)

    async def work(store: SqliteStore) -> None:
        await store.write(put_session())
        for piece in pieces:
            await store.write(PutBlob(blob_id="b", session_id="s1", data=piece), durable=False)
        for offset, limit in spans:
            assert store.blob("b", offset, limit) == (whole[offset : offset + limit], len(whole))

    with_store(tmp_path_factory.mktemp("blob") / "state.db", work)


def test_an_unknown_blob_is_none_and_a_blob_of_another_session_cannot_grow(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        await store.write(put_session("s1"), put_session("s2"), PutBlob(blob_id="b", session_id="s1", data=b"one"))
        assert store.blob("none", 0, 10) is None
        with pytest.raises(WriteRejected, match="belongs to another session"):
            await store.write(PutBlob(blob_id="b", session_id="s2", data=b"two"))
        assert store.blob("b", 0, 10) == (b"one", 3)

    with_store(tmp_path / "state.db", work)
