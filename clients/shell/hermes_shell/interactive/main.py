"""`hermes chat` without a question: the first line at once, then everything that takes time to import."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes_client import Connection, Session
    from hermes_protocol.methods import SessionOptions
    from hermes_shell.interactive.painter import Look
    from hermes_shell.options import ChatOptions


def run(options: ChatOptions) -> int:
    """Chat until the person leaves; the exit code. Errors before the chat begins are raised (see hermes_shell.main)."""
    from hermes_local import __version__

    sys.stdout.write(f"hermes {__version__}  /help lists commands, Ctrl-D leaves\n")
    sys.stdout.flush()
    import asyncio

    return asyncio.run(_chat(options))


async def _chat(options: ChatOptions) -> int:
    import asyncio
    import functools

    from hermes_client import Connection
    from hermes_client.start import replace
    from hermes_local.address import resolve
    from hermes_protocol.errors import ProtocolError
    from hermes_protocol.methods import Capabilities, Client, EventOptions
    from hermes_shell.interactive.refusals import explained

    capabilities = Capabilities(
        requests=("permission", "clarify", "secret", "form"), seen=True, events=EventOptions(sessions=True)
    )
    # A user's name tells two people on one session apart; two terminals of one person differ by their client ids.
    client = Client(name=f"chat {os.environ.get('USER', '')}".strip())
    loading = asyncio.create_task(asyncio.to_thread(_load))
    with explained():
        opening = functools.partial(Connection.open, client=client, capabilities=capabilities, profile=options.profile)
        try:
            connection = await opening()
        except ProtocolError as refused:
            if refused.kind != "version_unsupported" or not _agreed(refused.message):
                raise
            await replace(options.profile)
            connection = await opening()
        try:
            session, made = await _session(connection, options)
            look = await look_of(connection)
        except BaseException:
            await connection.close()
            raise
    await loading
    return await _show(connection, session, made, look, resolve(profile=options.profile).home)


def _agreed(why: str) -> bool:
    """Whether the person wants the daemon of another version replaced."""
    print(f"hermes: {why}")
    try:
        said = input("Let its turns finish and replace it now? [y/N] ")
    except EOFError:
        return False
    return said.strip().lower() in ("y", "yes")


def _load() -> None:
    """The heavy imports, while the daemon is being connected to or started."""
    if not _dumb():
        import hermes_shell.interactive.screen
    import hermes_shell.interactive.chat
    import hermes_shell.interactive.commands  # noqa: F401 (only to have it loaded)


async def _show(connection: Connection, session: Session, made: bool, look: Look, home: str) -> int:
    import shutil

    from hermes_shell.interactive.chat import Chat
    from hermes_shell.interactive.fetching import missing_line
    from hermes_shell.interactive.first_use import FirstUse
    from hermes_shell.interactive.painter import Painter

    painter = Painter(look, lambda: shutil.get_terminal_size().columns, connection.client_id)
    chat = Chat(connection, painter, FirstUse(home))
    if _dumb():
        from hermes_shell.interactive.plain import Plain

        face: Plain | Screen = Plain(chat)
    else:
        from hermes_shell.interactive.screen import Screen

        face = Screen(chat, f"{home}/chat_history")
    await chat.begin(face, session, made=made)
    if line := await missing_line(connection, session.view.session.model):
        chat.say(line, "warning")
    try:
        code = await face.run()
    finally:
        await chat.end()
    if farewell := chat.farewell():
        print(farewell)
    return code


async def _session(connection: Connection, options: ChatOptions) -> tuple[Session, bool]:
    """The session to chat in, and whether it was made for this chat."""
    from hermes_client import Session
    from hermes_protocol import methods as m
    from hermes_shell.interactive.session_ids import find

    cwd = options.folder()
    found = options.session
    if options.continue_:
        params = m.ListParams(limit=1, cwd=cwd)
        rows = (await connection.request("hermes/session/list", params, m.ListResult, resend=True)).sessions
        if not rows:
            print("no session to continue in this folder: this is a new one")
        found = rows[0].session_id if rows else None
    if found is None:
        made = await Session.create(connection, cwd, model=options.model, options=_options(options))
        return made, True
    session = await Session.open(connection, await find(connection, found))
    wanted = {"model": options.model, "mode": "off" if options.yolo else None, "toolsets": options.toolsets}
    for name, value in wanted.items():
        if value is not None:
            await session.set_option(name, value)
    return session, False


def _options(options: ChatOptions) -> SessionOptions:
    from hermes_protocol.methods import SessionOptions

    return SessionOptions(mode="off" if options.yolo else None, toolsets=options.toolsets)


async def look_of(connection: Connection) -> Look:
    """How things are shown: the daemon's `display` settings, and what this terminal can do."""
    from hermes_protocol import methods as m
    from hermes_protocol.errors import ProtocolError
    from hermes_shell.interactive.painter import Look

    display: dict[str, object] = {}
    try:
        params = m.ConfigGetParams("display")
        got = (await connection.request("hermes/config/get", params, m.ConfigGetResult, resend=True)).value
        display = got if isinstance(got, dict) else {}
    except ProtocolError:
        pass  # a daemon that does not tell its settings: the defaults stand
    lines = display.get("tool_output_lines")
    return Look(
        colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR") and not _dumb(),
        unicode="utf" in (sys.stdout.encoding or "").lower(),
        markdown=bool(display.get("markdown", True)) and not _dumb(),
        reasoning=bool(display.get("reasoning", False)),
        tool_lines=lines if isinstance(lines, int) and lines > 0 else 12,
    )


def _dumb() -> bool:
    return os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")
