"""What a client is told when something could not be stored."""

from __future__ import annotations

from hermes_daemon.core.ports import StorageError
from hermes_daemon.server.connection import storage_failure
from hermes_daemon.store.failures import NewerDatabase, WriteRejected


def test_a_full_disk_may_be_tried_again() -> None:
    error = storage_failure("the journal cannot be written", StorageError("the disk is full")).as_object()
    assert (error.code, error.data["kind"], error.data["retryable"]) == (-32057, "storage_error", True)
    assert error.message == "the journal cannot be written: the disk is full"


def test_what_can_never_be_kept_is_not_to_be_tried_again() -> None:
    for never in (WriteRejected("given twice"), NewerDatabase("/state.db", 9, 1)):
        assert storage_failure("it cannot be written", never).as_object().data["retryable"] is False
