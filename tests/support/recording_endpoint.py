"""An endpoint of the chat completions format in a thread: it answers as told and keeps every request it got."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

Answer = dict[str, Any]


def text(words: str, **more: Any) -> Answer:
    """An answer in words, in three pieces."""
    return {"content": words, **more}


def call(name: str, arguments: str | dict[str, Any], call_id: str = "") -> dict[str, Any]:
    """One tool call of `calls`; `arguments` as text is sent as it is, broken or not."""
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": given}}


def calls(*made: dict[str, Any], **more: Any) -> Answer:
    """An answer of tool calls."""
    named = [{"index": n, **one, "id": one["id"] or f"call_{n}"} for n, one in enumerate(made)]
    return {"tool_calls": named, "finish_reason": "tool_calls", **more}


def error(status: int, body: Any, **headers: str) -> Answer:
    """An HTTP error; header names with underscores."""
    return {"status": status, "body": body, "headers": {name.replace("_", "-"): v for name, v in headers.items()}}


def results_of(messages: list[dict[str, Any]]) -> list[str]:
    """The texts of the tool messages, in the order of the calls: results stand in the order they came."""
    told = {row["tool_call_id"]: row["content"] for row in messages if row["role"] == "tool"}
    return [told[made["id"]] for row in messages for made in row.get("tool_calls") or ()]


class Endpoint:
    """`answers` are given in order, the last one again and again. `hold` set: answers wait until it is released.
    `key` set: models are listed to those that bring it."""

    def __init__(self, url: str, answers: Sequence[Answer]) -> None:
        self.url = url
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.released = threading.Event()
        self.released.set()
        self.asked = threading.Event()
        self.key = ""

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def config(self, name: str = "lab", model: str = "m", **more: Any) -> str:
        """A config.yaml in which this is the default model, asked once and not again."""
        entry = {"base_url": self.base_url, "models": [model], **more}
        once = {"api_max_retries": 0}
        return json.dumps({"model": {"default": f"{name}/{model}"}, "providers": {name: entry}, "agent": once})

    def messages(self, request: int = -1) -> list[dict[str, Any]]:
        """The messages of one request, without the system message."""
        return [row for row in self.bodies[request]["messages"] if row["role"] != "system"]

    def results(self, request: int = -1) -> list[str]:
        """What the tools answered, as the model read it, in the order of the calls."""
        return results_of(self.messages(request))

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        key = cast(_Server, self.server).endpoint.key
        if key and self.headers.get("authorization") != f"Bearer {key}":
            self._whole(error(401, {"error": {"message": f"no such key: {self.headers.get('authorization')}"}}))
        else:
            self._whole(error(200, {"data": [{"id": "m"}, {"id": "n"}]}))

    def do_POST(self) -> None:
        server = cast(_Server, self.server)
        endpoint = server.endpoint
        body = self.rfile.read(int(self.headers["content-length"]))
        endpoint.bodies.append(json.loads(body))
        endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
        answer = endpoint.next_answer()
        endpoint.asked.set()
        if "status" in answer:
            self._whole(answer)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self._stream(answer, endpoint.released)
        except OSError:
            return  # the client has left, as some tests want it

    def _whole(self, answer: Answer) -> None:
        body = answer["body"] if isinstance(answer["body"], str) else json.dumps(answer["body"])
        data = body.encode()
        self.send_response(answer["status"])
        for name, value in {"content-type": "application/json", **answer["headers"]}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, answer: Answer, released: threading.Event) -> None:
        words = answer.get("content") or ""
        third = len(words) // 3 + 1
        for at in range(0, len(words), third):
            self._chunk({"content": words[at : at + third]})
            if at == 0:
                released.wait(60)
        if not words:
            released.wait(60)
        if answer.get("cut"):
            return
        if "tool_calls" in answer:
            self._chunk({"tool_calls": answer["tool_calls"]})
        usage = answer.get("usage", {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110})
        self._chunk({}, finish_reason=answer.get("finish_reason", "stop"), usage=usage)
        self.wfile.write(b"data: [DONE]\n\n")

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None, usage: Any = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        chunk = {"id": "x", "object": "chat.completion.chunk", "choices": [choice], "usage": usage}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    endpoint: Endpoint


@contextmanager
def recording_endpoint(*answers: Answer) -> Iterator[Endpoint]:
    """An Endpoint on a free loopback port until the end of the block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.endpoint = Endpoint(f"http://127.0.0.1:{server.server_address[1]}", answers or (text("done"),))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.endpoint
    finally:
        server.endpoint.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
