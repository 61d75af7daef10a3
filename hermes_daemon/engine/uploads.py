"""Big inputs: brought in pieces, kept as blobs, named in the blocks of an input."""

from __future__ import annotations

import base64
import binascii
import codecs
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from hermes_daemon.core.ports import Store
from hermes_daemon.core.records import Op, PutBlob
from hermes_daemon.engine.identity import new_id
from hermes_daemon.engine.mailbox import PATIENCE
from hermes_daemon.engine.shown import LineRedactor
from hermes_protocol.content import FileBlock, ImageBlock, ImagePart, InputBlock, Message, Part, input_parts
from hermes_protocol.errors import ProtocolError
from hermes_protocol.methods import BlobCreateParams, BlobCreateResult

if TYPE_CHECKING:
    from hermes_daemon.engine.session import Session

GROWING: Final = 64
FILE_BYTES: Final = 2_097_152
"""A file that a message carries as text has at most so many bytes."""


class Upload:
    """A blob that grows. Text is redacted before it is stored; a secret may be cut by a piece, so only whole lines
    are, and what is held back lives in memory: after a restart the client begins again."""

    def __init__(self, blob_id: str, mime: str, redact: Callable[[str], str]) -> None:
        self.blob_id, self.mime = blob_id, mime
        self.bytes = 0
        self._text = mime.startswith("text/")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines = LineRedactor(redact)

    def ready(self, data: bytes, *, final: bool) -> bytes:
        """What of a piece, and of what was held back before it, is stored now."""
        if not self._text:
            return data
        shown = self._lines.feed(self._decoder.decode(data, final))
        return (shown + (self._lines.rest() if final else "")).encode()


class Uploads:
    """The blobs of one session that grow."""

    def __init__(self) -> None:
        self._open: dict[str, Upload] = {}

    async def add(
        self, session: Session, params: BlobCreateParams, receipt: Callable[[BlobCreateResult], tuple[Op, ...]]
    ) -> BlobCreateResult:
        """Store a piece, durably, with its receipt. The caller holds the session's lock.

        invalid_params for data that is not what `encoding` says or an offset that is not the end (data.bytes is);
        blob_not_found for a blob that does not grow here; too_large over database.session_blob_bytes.
        """
        upload = self._upload(session, params)
        piece = upload.ready(_decoded(params), final=params.final)
        limit = session.parts.settings().database.session_blob_bytes
        if session.parts.store.blob_bytes(session.session_id) + len(piece) > limit:
            self._open.pop(upload.blob_id, None)
            text = f"the blobs of a session may have {limit:,} bytes together (database.session_blob_bytes)"
            raise ProtocolError("too_large", text, limit=limit)
        put = PutBlob(
            blob_id=upload.blob_id,
            session_id=session.session_id,
            data=piece,
            mime=upload.mime,
            growing=not params.final,
            at=session.parts.clock.now(),
        )
        self._open.pop(
            upload.blob_id, None
        )  # held-back text is gone from `upload`: when the write fails, so is the blob
        result = BlobCreateResult(upload.blob_id, upload.bytes + len(piece))
        await session.parts.store.write(put, *receipt(result), patience=PATIENCE)
        upload.bytes = result.bytes
        if not params.final:
            self._open[upload.blob_id] = upload
        return result

    def _upload(self, session: Session, params: BlobCreateParams) -> Upload:
        if params.blob_id is None:
            upload = Upload(new_id("blob"), params.mime, session.parts.redact)
            if len(self._open) >= GROWING:
                text = f"{GROWING} blobs of this session grow already: end one with `final`"
                raise ProtocolError("overloaded", text, scope="session", retryAfterMs=1000)
        else:
            known = self._open.get(params.blob_id)
            if known is None:
                text = f"no blob {params.blob_id} of this session grows; begin again without blobId"
                raise ProtocolError("blob_not_found", text)
            upload = known
        if params.offset != upload.bytes:
            text = f"$.offset: expected {upload.bytes}, where the blob ends, got {params.offset}"
            raise ProtocolError("invalid_params", text, path="$.offset", bytes=upload.bytes)
        return upload


def _decoded(params: BlobCreateParams) -> bytes:
    if params.encoding == "utf8":
        return params.data.encode("utf-8", "replace")
    try:
        return base64.b64decode(params.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ProtocolError("invalid_params", f"$.data: expected base64 ({error})", path="$.data") from error


# --- what blocks name -------------------------------------------------------------------------------------------------


def check_blobs(store: Store, session_id: str, blocks: Sequence[InputBlock]) -> None:
    """blob_not_found for a block that names a blob this session does not have; invalid_params for one that does not
    fit its block or still grows, too_large for a file of more than FILE_BYTES."""
    for place, block in enumerate(blocks):
        if not isinstance(block, ImageBlock | FileBlock) or block.blob_id is None:
            continue
        path = f"$.input[{place}].blobId"
        row = store.blob_row(block.blob_id) if store.blob_held(session_id, block.blob_id) else None
        if row is None:
            raise ProtocolError("blob_not_found", f"{path}: no blob {block.blob_id} in this session", path=path)
        wanted = "image/" if isinstance(block, ImageBlock) else "text/"
        if row.growing:
            text = f"{path}: the blob still grows; end it with `final`"
        elif not row.mime.startswith(wanted):
            text = f"{path}: expected a blob of type {wanted}*, got {row.mime}"
        elif isinstance(block, FileBlock) and row.bytes > FILE_BYTES:
            raise ProtocolError("too_large", f"{path}: a file has at most {FILE_BYTES:,} bytes", limit=FILE_BYTES)
        else:
            continue
        raise ProtocolError("invalid_params", text, path=path)


def parts_of(store: Store, blocks: Sequence[InputBlock]) -> tuple[Part, ...]:
    """The message parts of an input: text of files is in them, images are named and read for each request."""
    return input_parts(tuple(_with_text(store, block) for block in blocks))


def _with_text(store: Store, block: InputBlock) -> InputBlock:
    if not isinstance(block, FileBlock) or block.blob_id is None:
        return block
    found = store.blob(block.blob_id, 0, FILE_BYTES)
    return msgspec.structs.replace(block, text=found[0].decode("utf-8", "replace")) if found else block


def with_images(store: Store, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with the data of the images that they only name. One whose blob is gone stays a name."""
    return tuple(
        msgspec.structs.replace(message, parts=tuple(_with_data(store, part) for part in message.parts))
        if any(isinstance(part, ImagePart) and part.data is None for part in message.parts)
        else message
        for message in messages
    )


def _with_data(store: Store, part: Part) -> Part:
    if not isinstance(part, ImagePart) or part.data is not None or part.blob_id is None:
        return part
    row = store.blob_row(part.blob_id)
    found = store.blob(part.blob_id, 0, row.bytes) if row is not None else None
    return msgspec.structs.replace(part, data=base64.b64encode(found[0]).decode()) if found else part
