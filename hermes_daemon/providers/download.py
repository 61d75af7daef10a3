"""A file over HTTP, continued where it broke off."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hermes_daemon.core.ports import Refused, Unavailable

if TYPE_CHECKING:
    import httpx

STALL_S = 60.0
ATTEMPTS = 5


def download(url: str, part: str, progress: Callable[[str], None], wait: Callable[[float], None] = time.sleep) -> None:
    """Bring the file at `url` into `part`, whole. What `part` already holds is continued if the server's file is still
    the same one (its ETag lies beside it in `part`.etag).

    Raises Unavailable when the transfer breaks more often than five times without getting further, Refused when the
    server says that there is no such file.
    """
    import httpx

    stuck = 0
    with httpx.Client(follow_redirects=True, timeout=httpx.Timeout(STALL_S, connect=20)) as client:
        while True:
            before = _size(part)
            try:
                if _attempt(client, url, part, progress):
                    break
                reason = "the connection ended early"
            except httpx.HTTPError as error:
                reason = str(error) or type(error).__name__
            stuck = 0 if _size(part) > before else stuck + 1
            if stuck >= ATTEMPTS:
                raise Unavailable(url, f"{reason}; {_size(part)} bytes are kept and continued the next time")
            if stuck:
                wait(2.0**stuck)
            progress(f"broken off ({reason}); going on from {_size(part) / 1e6:.1f} MB")
    _forget(f"{part}.etag")


def _attempt(client: httpx.Client, url: str, part: str, progress: Callable[[str], None]) -> bool:
    """One request; whether the file is whole now."""
    have, etag = _size(part), _read(f"{part}.etag")
    headers = {"accept-encoding": "identity"}
    if have and etag:
        headers |= {"range": f"bytes={have}-", "if-range": etag}
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 416:  # more is here than there: not the same file
            _forget(part)
            return False
        if response.status_code in (401, 403, 404, 410):
            raise Refused(f"{url} answered {response.status_code}.", "Check organisation, repository and file name.")
        response.raise_for_status()
        goes_on = response.status_code == 206
        total = _total(response.headers, have if goes_on else 0)
        _write(f"{part}.etag", _strong(response.headers.get("etag", "")))
        done = have if goes_on else 0
        told = -1
        with open(part, "ab" if goes_on else "wb") as file:
            for data in response.iter_bytes():  # as they come: a block being filled would be lost in a break
                file.write(data)
                done += len(data)
                percent = done * 100 // total if total else 0
                if total and percent // 5 != told:
                    told = percent // 5
                    progress(f"{done / 1e6:.1f} of {total / 1e6:.1f} MB ({percent} %)")
    return total is None or done == total


def _total(headers: Mapping[str, str], offset: int) -> int | None:
    length = headers.get("content-length", "")
    packed = headers.get("content-encoding", "identity") != "identity"
    return offset + int(length) if length.isdecimal() and not packed else None


def _strong(etag: str) -> str:
    """Only a strong ETag promises the same bytes."""
    return "" if etag.startswith("W/") else etag


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


def _read(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii", errors="replace") as file:
        file.write(text)


def _forget(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)
