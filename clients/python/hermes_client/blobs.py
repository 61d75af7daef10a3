"""Big texts and files that a daemon keeps beside a session: brought and read in pages."""

from __future__ import annotations

import base64

from hermes_client.connection import Connection
from hermes_protocol import methods as m

PIECE_BYTES = 262_144
"""Of one page. As base64 it stays far below the smallest frame limit (1 MiB)."""
TEXT = "text/plain; charset=utf-8"


class Blobs:
    """Blobs of one session. Offsets on the wire count bytes."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self._connection = connection
        self._session_id = session_id

    async def create(self, data: bytes | str, *, mime: str = "") -> str:
        """Bring `data` piece by piece; its blob id, for ImageBlock and FileBlock inputs.

        `mime` defaults to text for str and application/octet-stream for bytes. Text is redacted before it is stored.
        ProtocolError `too_large` past the session's limit.
        """
        mime = mime or (TEXT if isinstance(data, str) else "application/octet-stream")
        rest: bytes | str = data
        blob_id: str | None = None
        offset = 0
        while True:
            piece, rest = _cut(rest)
            text = piece if isinstance(piece, str) else base64.b64encode(piece).decode()
            params = m.BlobCreateParams(
                self._session_id,
                text,
                blob_id,
                mime,
                "utf8" if isinstance(piece, str) else "base64",
                offset,
                final=not rest,
            )
            made = await self._connection.request("hermes/blob/create", params, m.BlobCreateResult)
            blob_id, offset = made.blob_id, made.bytes
            if not rest:
                return blob_id

    async def read(self, blob_id: str) -> bytes:
        """All of a blob, as it is now (one that still grows has more later)."""
        parts: list[bytes] = []
        offset = 0
        while True:
            params = m.BlobReadParams(blob_id, offset, PIECE_BYTES, "base64")
            page = await self._connection.request("hermes/blob/read", params, m.BlobReadResult, resend=True)
            parts.append(base64.b64decode(page.data))
            if page.eof or page.next_offset <= offset:
                return b"".join(parts)
            offset = page.next_offset


def _cut(data: bytes | str) -> tuple[bytes | str, bytes | str]:
    """A piece and what is left. Of text so many characters that they fit as bytes."""
    size = PIECE_BYTES // 4 if isinstance(data, str) else PIECE_BYTES
    return data[:size], data[size:]
