"""The OTLP export of a real daemon, read by a collector stand-in that decodes it with OpenTelemetry's own messages."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_daemon.telemetry.otlp import spans
from tests.bench.client import BenchClient
from tests.support.daemon_process import Daemon, running_daemon
from tests.support.otlp_collector import OtlpCollector

pytestmark = pytest.mark.real

names = pytest.importorskip(
    "opentelemetry.semconv._incubating.attributes.gen_ai_attributes", reason="the conventions are not installed"
)
KEY = "collector-key-0123456789abcdef"
CONFIG = """\
telemetry:
  otel: {{enabled: true, endpoint: "{endpoint}", interval: 0.1, headers: {{authorization: "Bearer {key}"}}}}
"""
TOOL = 'scripted/tool?name=read_file&args={"path":"notes.txt"}'
WORDS = "words-of-the-prompt"


def turn(daemon: Daemon, model: str, folder: Path) -> str:
    """The session of a turn that has ended."""
    client = BenchClient(daemon.socket_path)
    client.initialize()
    session = client.session(model, str(folder))
    client.subscribe(session)
    client.submit(session, "k1", WORDS)
    client.until_turn_ended()
    client.close()
    return session


def config(endpoint: str) -> str:
    return CONFIG.format(endpoint=endpoint, key=KEY)


def test_a_turn_with_a_tool_is_a_trace_by_the_conventions_and_its_tokens_are_metrics(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("words-of-the-file\n")
    with OtlpCollector() as collector, running_daemon(tmp_path, config(collector.endpoint)) as daemon:
        session = turn(daemon, TOOL, tmp_path)
        found = collector.spans(4)
        tokens = collector.metric("gen_ai.client.token.usage")
        took = collector.metric("gen_ai.client.operation.duration")
        turns = collector.metric("hermes.turns")
        resource, headers = collector.resource, collector.requests[-1][2]

    root = next(span for span in found if span["name"] == "invoke_agent hermes-daemon")
    below = [span for span in found if span is not root]
    assert sorted(span["name"].split("?")[0] for span in below) == ["chat tool", "chat tool", "execute_tool read_file"]
    assert {span["parent"] for span in below} == {root["id"]}
    assert {span["trace"] for span in found} == {root["trace"]}
    assert len({span["id"] for span in found}) == 4
    for span in below:
        assert root["start"] - 10**6 <= span["start"] <= span["end"] <= root["end"] + 10**6

    assert root["attributes"]["gen_ai.operation.name"] == "invoke_agent"
    assert root["attributes"]["hermes.turn.status"] == "completed"
    assert {span["attributes"]["gen_ai.conversation.id"] for span in found} == {session}
    chats = [span for span in below if span["name"].startswith("chat")]
    assert sorted(span["attributes"]["gen_ai.response.finish_reasons"] for span in chats) == [["stop"], ["tool_calls"]]
    assert {span["attributes"]["gen_ai.provider.name"] for span in chats} == {"scripted"}
    tool = next(span for span in below if span["name"] == "execute_tool read_file")
    assert (tool["attributes"]["gen_ai.tool.name"], tool["attributes"]["gen_ai.tool.type"]) == ("read_file", "function")

    written = sum(span["attributes"]["gen_ai.usage.output_tokens"] for span in chats)
    assert root["attributes"]["gen_ai.usage.output_tokens"] == written > 0
    of_kind = {point["gen_ai.token.type"]: count_and_sum for point, count_and_sum in tokens}
    assert of_kind["output"] == (2, written)
    assert [(count, point["gen_ai.operation.name"]) for point, (count, _) in took] == [(2, "chat")]
    assert turns == [({"status": "completed"}, 1.0)]
    assert resource["service.name"] == "hermes-daemon"
    assert headers["authorization"] == f"Bearer {KEY}"

    exported = str(found) + str(tokens)
    for content in (WORDS, "words-of-the-file"):
        assert content not in exported
    assert KEY not in Path(daemon.address.log_path).read_text()


def test_every_gen_ai_name_is_one_of_the_conventions() -> None:
    known = {value for name, value in vars(names).items() if name.startswith("GEN_AI_") and isinstance(value, str)}
    source = Path(spans.__file__).read_text()
    used = set(re.findall(r'"(gen_ai\.[a-z_.]+)"', source))
    assert len(used) > 12
    assert used <= known
    assert {"invoke_agent", "chat", "execute_tool"} <= {one.value for one in names.GenAiOperationNameValues}


def test_an_absent_collector_is_one_line_and_its_coming_another_and_nothing_is_lost(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with running_daemon(tmp_path, config(f"http://127.0.0.1:{port}")) as daemon:
        log = Path(daemon.address.log_path)
        turn(daemon, "scripted/echo", tmp_path)
        lines_with(log, "cannot be reached", 1)
        turn(daemon, "scripted/echo", tmp_path)
        with OtlpCollector(port=port) as collector:
            found = collector.spans(4)
            lines_with(log, "takes telemetry again; 0 spans were lost", 1)
            assert daemon.stop() == 0
    assert sorted(span["name"] for span in found) == ["chat echo"] * 2 + ["invoke_agent hermes-daemon"] * 2
    said = [line for line in log.read_text().splitlines() if "OTLP" in line]
    assert len(said) == 2


def test_a_collector_that_never_answers_holds_up_neither_turns_nor_the_end(tmp_path: Path) -> None:
    with black_hole() as (endpoint, arrived), running_daemon(tmp_path, config(endpoint)) as daemon:
        turn(daemon, "scripted/echo", tmp_path)
        assert arrived.wait(30)
        for number in range(3):
            turn(daemon, f"scripted/words?n={10 + number}", tmp_path)
        assert daemon.stop() == 0


def lines_with(path: Path, text: str, number: int) -> None:
    """Return when the log has so many lines with that text."""
    gate = threading.Event()
    for _ in range(3000):
        if path.exists() and path.read_text().count(text) >= number:
            return
        gate.wait(0.01)
    raise AssertionError(f"no line with {text!r}: {path.read_text()[-2000:]}")


@contextlib.contextmanager
def black_hole() -> Iterator[tuple[str, threading.Event]]:
    """(endpoint, set when somebody connected): it takes what is sent and says nothing."""
    arrived, held = threading.Event(), list[Any]()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])
                    arrived.set()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", arrived
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()
            for one in held:
                one.close()
