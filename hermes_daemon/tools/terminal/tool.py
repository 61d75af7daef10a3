"""terminal: run a shell command and tell how it ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from hermes_daemon.core.commands import program_of_last
from hermes_daemon.core.ports import Rejected, ToolContext, ToolOutcome
from hermes_daemon.tools.registry import FunctionTool
from hermes_daemon.tools.terminal.exit_codes import meaning
from hermes_daemon.tools.terminal.output import Output
from hermes_daemon.tools.terminal.run import Ran, run_command


def terminal_tool() -> FunctionTool:
    """The tool."""

    async def terminal(
        ctx: ToolContext,
        command: Annotated[str, msgspec.Meta(min_length=1)],
        timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None,  # noqa: ASYNC109 — the tool's argument has this name
        workdir: str | None = None,
    ) -> ToolOutcome:
        """Run a shell command and return its output and exit code.

        Standard output and standard error come together, in order. There is no terminal and nothing to answer a
        prompt: standard input is empty. Each call is a new shell, so `cd` and variables do not last. What a command
        leaves running in the background is stopped when the call ends.

        Args:
            command: the command line
            timeout: seconds until the command is stopped
            workdir: folder to run in, relative to the session's folder
        """
        if not command.strip() or "\0" in command:
            raise Rejected("expected a command line without NUL characters", "$.command")
        cwd = _folder(ctx, workdir)
        wanted = ctx.settings.terminal.timeout if timeout is None else timeout
        allowed = min(wanted, ctx.settings.terminal.max_timeout)
        ran = await run_command(command, ctx, cwd=cwd, limit_s=allowed)
        if ctx.transforms_output:
            whole = ran.output.whole()
            changed = await ctx.transform_output(command, whole, ran.code)
            if changed != whole:
                output = Output(ctx.settings.tool_output)
                output.feed(changed.encode("utf-8", "replace"), final=True)
                ran = msgspec.structs.replace(ran, output=output)
        return _outcome(ran, command, allowed, wanted)

    return FunctionTool(terminal, title=_title, toolset="terminal", kind="execute")


def _title(args: Mapping[str, Any]) -> str:
    where = f" in {args['workdir']}" if args.get("workdir") else ""
    return f"Run `{args['command']}`{where}"


def _folder(ctx: ToolContext, workdir: str | None) -> str:
    folder = os.path.join(ctx.cwd, workdir) if workdir else ctx.cwd
    if not os.path.isdir(folder):
        raise Rejected(f"no such folder: {folder}", "$.workdir" if workdir else "$")
    return folder


def _outcome(ran: Ran, command: str, allowed: float, wanted: float) -> ToolOutcome:
    notes: list[str] = []
    if ran.timed_out:
        limit = f" (the most that is allowed; {wanted:g} s were asked for)" if wanted > allowed else ""
        notes.append(f"timed out after {allowed:g} s{limit} and was stopped with everything it had started")
    else:
        notes.append(meaning(ran.code, program_of_last(command)))
    if ran.stopped and not ran.timed_out:
        names = "; ".join(f"{stray.pid} {stray.command}" for stray in ran.stopped[:5])
        more = f" and {len(ran.stopped) - 5} more" if len(ran.stopped) > 5 else ""
        notes.append(f"{len(ran.stopped)} process(es) left running in the background were stopped: {names}{more}")
    told = [note for note in notes if note]
    body = ran.output.for_model() or "(no output)"
    text = "\n".join([body, f"[exit_code {ran.code}]", *(f"[{note}]" for note in told)])
    shown = "\n".join([ran.output.for_people().rstrip("\n") or "(no output)", *(f"[{note}]" for note in told)])
    return ToolOutcome(text, is_error=ran.timed_out, shown=shown, exit_code=ran.code)
