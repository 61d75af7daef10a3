"""HTTP for guests: one exchange, whatever becomes of it, from any event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes_daemon.core.ports import HttpReply, Rejected, Unavailable
from hermes_daemon.providers.web import Web
from tests.support.raw_http import HttpConnection, HttpRequest, RawHttp


async def echo(request: HttpRequest, connection: HttpConnection) -> None:
    if request.path == "/silent":
        await connection.gone.wait()
    elif request.path == "/drop":
        connection.drop()
    elif request.path == "/away":
        await connection.answer(302, b"", location="/")
    else:
        await connection.answer(404, request.body or b"x" * 100, X_Mark="yes")


def at(path: str, **more: Any) -> HttpReply:
    async def run() -> HttpReply:
        web = Web()
        async with RawHttp(echo) as server:
            try:
                return await web.request(more.pop("method", "POST"), server.url + path, **more)
            finally:
                await web.close()

    return asyncio.run(run())


def test_an_answer_is_given_whatever_its_status_and_redirects_are_not_followed() -> None:
    reply = at("/", body=b"ping", headers={"x-own": "1"})
    assert (reply.status, reply.body, reply.headers["x-mark"], reply.cut) == (404, b"ping", "yes", False)
    assert at("/away").status == 302


def test_of_a_long_body_only_the_beginning_is_read() -> None:
    reply = at("/", method="GET", max_bytes=10)
    assert (reply.body, reply.cut) == (b"x" * 10, True)
    assert not at("/", method="GET", max_bytes=100).cut


@pytest.mark.parametrize("path", ["/drop", "/silent"])
def test_without_a_whole_answer_it_is_unavailable_and_names_the_host_only(path: str) -> None:
    with pytest.raises(Unavailable, match=r"^127\.0\.0\.1:\d+: ") as raised:
        at(f"{path}", timeout_s=0.3)
    assert path not in str(raised.value)


def test_nobody_who_listens_is_unavailable() -> None:
    async def run() -> None:
        async with RawHttp(echo) as server:
            url = server.url
        web = Web()
        with pytest.raises(Unavailable, match="ConnectError"):
            await web.request("GET", url, connect_timeout_s=5)
        await web.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("url", "headers", "path"),
    [
        ("ftp://x/", {}, "$.url"),
        ("no url", {}, "$.url"),
        ("http://[::1", {}, "$.url"),
        ("http://x:99999/", {}, "$.url"),
        ("http://x/", {"authorization": "Bearer two\nlines"}, "$.headers.authorization"),
        ("http://x/", {"authorization": "Bearer kéy"}, "$.headers.authorization"),
    ],
)
def test_what_cannot_be_sent_is_rejected_without_repeating_it(url: str, headers: dict[str, str], path: str) -> None:
    async def run() -> None:
        with pytest.raises(Rejected) as raised:
            await Web().request("GET", url, headers=headers)
        assert raised.value.path == path
        assert "Bearer" not in str(raised.value)

    asyncio.run(run())


def test_requests_of_other_event_loops_are_made_in_the_one_of_the_connections() -> None:
    async def run() -> None:
        web = Web(asyncio.get_running_loop())
        async with RawHttp(echo) as server:

            def elsewhere(number: int) -> bytes:
                return asyncio.run(web.request("POST", server.url, body=b"%d" % number)).body

            bodies = await asyncio.gather(*(asyncio.to_thread(elsewhere, number) for number in range(4)))
            assert bodies == [b"0", b"1", b"2", b"3"]
            await web.close()

    asyncio.run(run())


def test_a_time_out_elsewhere_ends_the_request_as_well() -> None:
    async def run() -> None:
        web = Web(asyncio.get_running_loop())
        async with RawHttp(echo) as server:

            def elsewhere() -> str:
                with pytest.raises(Unavailable) as raised:
                    asyncio.run(web.request("GET", f"{server.url}/silent", timeout_s=0.2))
                return str(raised.value)

            assert "no answer within 0.2 s" in await asyncio.to_thread(elsewhere)
            async with asyncio.timeout(20):
                await server.connections[0].gone.wait()
            await web.close()

    asyncio.run(run())


def test_a_closed_home_is_unavailable() -> None:
    web = Web()

    async def ask() -> None:
        with pytest.raises(Unavailable):
            await web.request("GET", "http://127.0.0.1:9/", timeout_s=5)
        await web.close()

    asyncio.run(ask())
    asyncio.run(ask())
