import asyncio
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from hermes_daemon.core.ports import ToolOutcome
from hermes_daemon.core.settings import Settings, TerminalSettings, ToolOutputSettings
from hermes_daemon.tools.terminal.exit_codes import meaning
from hermes_daemon.tools.terminal.processes import start_time, strays
from tests.support.shared_data import case
from tests.support.tool_context import Bench

linux = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="strays are found through /proc")
QUICK = Settings(terminal=TerminalSettings(grace_s=0.3))


def run(folder: Path, command: str, settings: Settings = QUICK, **more: object) -> ToolOutcome:
    return Bench(folder, settings=settings).run("terminal", command=command, **more)


def test_output_of_both_streams_comes_in_order_with_the_exit_code(tmp_path: Path) -> None:
    outcome = run(tmp_path, "echo one; echo two >&2; echo three; exit 3")
    assert outcome == ToolOutcome("one\ntwo\nthree\n[exit_code 3]", shown="one\ntwo\nthree", exit_code=3)


def test_a_command_without_output_says_so(tmp_path: Path) -> None:
    assert run(tmp_path, "true").text == "(no output)\n[exit_code 0]"


def test_only_the_sessions_environment_is_seen(tmp_path: Path) -> None:
    bench = Bench(tmp_path, env={"PATH": os.defpath, "ONLY": "this"})
    names = {line.partition("=")[0] for line in bench.run("terminal", command="env").text.splitlines() if "=" in line}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "ONLY", "HERMES_PROCESS"}


def test_standard_input_is_empty(tmp_path: Path) -> None:
    assert run(tmp_path, "cat; echo end").text.startswith("end\n")


def test_workdir_is_relative_to_the_sessions_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert run(tmp_path, "pwd", workdir="sub").text.startswith(f"{tmp_path}/sub\n")
    assert "$.workdir: no such folder" in run(tmp_path, "pwd", workdir="nope").text


@pytest.mark.parametrize("command", [" ", "a\0b"])
def test_what_is_no_command_is_rejected(command: str, tmp_path: Path) -> None:
    assert "$.command" in run(tmp_path, command).text


def test_an_unknown_shell_is_told_with_the_setting(tmp_path: Path) -> None:
    outcome = run(tmp_path, "true", Settings(terminal=TerminalSettings(shell="nosuchshell")))
    assert "terminal.shell" in outcome.text


def test_escapes_are_for_people_and_progress_and_not_for_the_model(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    outcome = bench.run("terminal", command=r"printf '\033[31mred\033[0m\n10%%\r99%%\rdone\n\033]0;title\007x\n'")
    assert outcome.text == "red\ndone\nx\n[exit_code 0]"
    assert outcome.shown is not None
    assert "\x1b[31mred\x1b[0m" in outcome.shown
    assert "\x1b[31mred" in "".join(bench.context.said)


def test_output_is_told_while_the_command_runs(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        bench = Bench(tmp_path)
        task = asyncio.ensure_future(bench.call("terminal", command="echo first; read x < fifo; echo $x"))
        await bench.context.heard.wait()
        early = list(bench.context.said)
        await asyncio.to_thread((tmp_path / "fifo").write_text, "second\n")
        assert (await task).text.startswith("first\nsecond\n")
        return early

    os.mkfifo(tmp_path / "fifo")
    assert asyncio.run(scene()) == ["first\n"]


def test_big_output_keeps_head_and_tail_and_tells_the_whole_size(tmp_path: Path) -> None:
    outcome = run(tmp_path, "seq 1 300000", Settings(tool_output=ToolOutputSettings(max_bytes=10_000)))
    assert outcome.text.startswith("1\n2\n3\n")
    assert "of 1988895 bytes left out …]" in outcome.text
    assert outcome.text.endswith("\n299999\n300000\n[exit_code 0]")
    assert len(outcome.text) < 10_200


def test_a_process_is_on_record_before_it_runs_and_taken_off_after_it_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    begun = bench.context.processes.started

    async def started(pid: int, marker: str, command: str) -> None:
        await begun(pid, marker, command)
        assert not (tmp_path / "ran").exists()
        await asyncio.sleep(0)
        assert not (tmp_path / "ran").exists()

    bench.context.processes.started = started  # type: ignore[method-assign]
    outcome = bench.run("terminal", command="touch ran; echo $$ $HERMES_PROCESS")
    (_, pid, marker), ended = bench.context.processes.calls
    assert outcome.text.startswith(f"{pid} {marker}\n")
    assert ended == ("ended", pid, "")
    assert (tmp_path / "ran").exists()


def test_a_process_that_cannot_be_recorded_does_not_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, settings=QUICK)

    async def started(pid: int, marker: str, command: str) -> None:
        raise RuntimeError("disk full")

    bench.context.processes.started = started  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="disk full"):
        bench.run("terminal", command="touch ran")
    assert not (tmp_path / "ran").exists()


def test_a_time_out_stops_the_group_and_says_so(tmp_path: Path) -> None:
    outcome = run(tmp_path, "echo begun; sleep 300 | sleep 300", timeout=0.3)
    assert outcome.exit_code == 124
    assert outcome.is_error
    assert outcome.text == (
        "begun\n[exit_code 124]\n[timed out after 0.3 s and was stopped with everything it had started]"
    )


def test_a_longer_time_out_than_allowed_is_told(tmp_path: Path) -> None:
    settings = Settings(terminal=TerminalSettings(max_timeout=0.2, grace_s=0.2))
    assert "(the most that is allowed; 99 s were asked for)" in run(tmp_path, "sleep 300", settings, timeout=99).text


@linux
def test_cancellation_stops_everything_and_goes_on(tmp_path: Path) -> None:
    async def scene() -> tuple[Bench, str]:
        bench = Bench(tmp_path, settings=QUICK)
        task = asyncio.ensure_future(bench.call("terminal", command="sleep 300 & echo on; sleep 300"))
        await bench.context.heard.wait()
        marker = bench.context.processes.calls[0][2]
        assert len(strays(marker)) >= 2
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # an impatient second stop must not leave the work half done
        with pytest.raises(asyncio.CancelledError):
            await task
        return bench, marker

    bench, marker = asyncio.run(scene())
    assert strays(marker) == []
    assert [call[0] for call in bench.context.processes.calls] == ["started", "ended"]


@pytest.mark.parametrize(
    ("code", "program", "words"),
    [
        (1, "grep", "no match"),
        (1, "rg", "no match"),
        (1, "diff", "differ"),
        (1, "[", "false"),
        (28, "curl", "timed out"),
        (127, "x", "not found"),
        (-9, "x", "ended by signal 9 (SIGKILL"),
        (139, "x", "usually means ended by signal 11"),
        (130, "x", ""),
        (-2, "x", ""),
        (1, "x", ""),
        (2, "grep", ""),
    ],
)
def test_an_exit_code_is_explained_where_it_is_no_plain_failure(code: int, program: str, words: str) -> None:
    note = meaning(code, program)
    assert words in note if words else note == ""


def test_the_explanation_is_for_the_program_that_ran_last(tmp_path: Path) -> None:
    assert "[no match was found]" in run(tmp_path, "echo x | grep y").text
    assert "ended by signal 9" in run(tmp_path, "kill -9 $$").text


def case_command(name: str) -> str:
    return (case("terminal", name) / "cmd.sh").read_text()


@linux
def test_case_background_child_holds_pipe(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    outcome = bench.run("terminal", command=case_command("term-background-child-holds-pipe"), timeout=20)
    assert outcome.exit_code == 0
    assert outcome.text.startswith("started\n[exit_code 0]\n[1 process(es) left running in the background were stopped")
    assert "sleep 300" in outcome.text
    assert strays(bench.context.processes.calls[0][2]) == []


@linux
def test_case_daemonized_grandchild(tmp_path: Path) -> None:
    bench = Bench(tmp_path, env={"PATH": f"{os.path.dirname(sys.executable)}:{os.defpath}"})
    outcome = bench.run("terminal", command=case_command("term-daemonized-grandchild"), timeout=20)
    assert outcome.exit_code == 0
    assert outcome.text.startswith("launched\n")
    assert "left running in the background were stopped" in outcome.text
    assert strays(bench.context.processes.calls[0][2]) == []


def test_case_ignores_term(tmp_path: Path) -> None:
    started = time.monotonic()
    outcome = run(tmp_path, case_command("term-ignores-term"), timeout=0.5)
    assert outcome.exit_code == 124
    assert time.monotonic() - started < 15  # against 20 s of the case's limit; the command would run for ever


def test_case_no_output(tmp_path: Path) -> None:
    assert run(tmp_path, case_command("term-no-output"), timeout=20).text == "(no output)\n[exit_code 1]"


def test_case_stderr_fills_first(tmp_path: Path) -> None:
    outcome = run(tmp_path, case_command("term-stderr-fills-first"), timeout=20)
    assert outcome.exit_code == 0
    assert "of 3000004 bytes left out" in outcome.text
    assert outcome.text.endswith("eout\n[exit_code 0]")


@linux
def test_case_background_survives_exit(tmp_path: Path) -> None:
    server = (
        f'{sys.executable} -c \'import socket,time; s=socket.socket(); s.setsockopt(1,2,1); s.bind(("127.0.0.1",0)); '
        's.listen(); open("port","w").write(str(s.getsockname()[1])); time.sleep(300)\' & '
        "while [ ! -s port ]; do sleep 0.05; done; echo up"
    )
    bench = Bench(tmp_path)
    assert bench.run("terminal", command=server, timeout=20).text.startswith("up\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", int((tmp_path / "port").read_text())))  # the port is free at once
    _, pid, marker = bench.context.processes.calls[0]
    assert strays(marker) == []
    assert start_time(pid) == ""  # waited for: not even a zombie is left


def test_signals_are_not_blocked_for_children(tmp_path: Path) -> None:
    assert run(tmp_path, "trap 'echo got; exit 0' TERM; kill -TERM $$; sleep 5").text.startswith("got\n")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
