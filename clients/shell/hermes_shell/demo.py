"""`hermes demo`: a coding turn without a key. The model is a script; daemon, tools, questions and files are real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_client import Changes, Session
    from hermes_protocol.events import TurnEnded
    from hermes_shell.interactive.chat import Chat
    from hermes_shell.interactive.screen import Screen

TASK = "The total in prices.py is wrong when there is a discount. Find the mistake, fix it and run the test."
PRICES = '''"""Prices of a small shop."""


def total(amounts, discount=0.0):
    """The sum of `amounts` with `discount` (0.2 = 20 %) taken off."""
    net = sum(amounts)
    return net * (1 + discount)
'''
TEST = """import unittest

from prices import total


class TotalTest(unittest.TestCase):
    def test_without_a_discount(self):
        self.assertEqual(total([10, 20]), 30)

    def test_with_a_discount(self):
        self.assertAlmostEqual(total([10, 20], discount=0.1), 27)
"""
HELP = """usage: hermes demo [-y, --yes] [--keep]

A scripted coding turn through the real daemon and real tools, in a temporary git repository; no key is needed.

  -y, --yes  answer the permission questions itself, visibly (also when standard input is no terminal)
  --keep     leave the repository and the session behind
"""


def run(argv: Sequence[str], profile: str | None = None) -> int:
    """Run the demo; 0 only when the test in the repository really passes at the end, 2 for a wrong option."""
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(HELP)
        return 0
    argv = ["--yes" if word == "-y" else word for word in argv]
    unknown = [word for word in argv if word not in ("--yes", "--keep")]
    if unknown:
        sys.stderr.write(f"hermes demo: {unknown[0]}: expected --yes or --keep\n")
        return 2
    import asyncio

    from hermes_shell.interactive.refusals import explained

    folder = os.path.realpath(tempfile.mkdtemp(prefix="hermes-demo-"))
    try:
        with explained():
            return asyncio.run(_demo(folder, profile, yes="--yes" in argv, keep="--keep" in argv))
    finally:
        if "--keep" not in argv:
            shutil.rmtree(folder, ignore_errors=True)


async def _demo(folder: str, profile: str | None, *, yes: bool, keep: bool) -> int:
    from hermes_client import Connection, Session
    from hermes_local.address import resolve
    from hermes_protocol import methods as m
    from hermes_shell.interactive.chat import Chat
    from hermes_shell.interactive.first_use import FirstUse
    from hermes_shell.interactive.main import look_of
    from hermes_shell.interactive.painter import Painter

    repository, script = prepare(folder)
    client = m.Client(name="demo")
    async with await Connection.open(
        client=client, capabilities=m.Capabilities(requests=("permission",)), profile=profile
    ) as connection:
        session = await Session.create(connection, repository, title="hermes demo", model=f"scripted/file:{script}")
        painter = Painter(await look_of(connection), lambda: shutil.get_terminal_size().columns, connection.client_id)
        chat = Chat(connection, painter, FirstUse(resolve(profile=profile).home))
        print(f"A repository with a failing test: {repository}")
        print(f"Watch or answer from a second terminal: hermes chat --session {session.session_id}\n", flush=True)
        ended = await _turn(chat, session, by_itself=yes or not (sys.stdin.isatty() and sys.stdout.isatty()))
        if not keep:
            await connection.request("hermes/session/delete", m.DeleteParams(session.session_id), m.Empty)
    return _verdict(repository, session.session_id, ended, keep)


async def _turn(chat: Chat, session: Session, *, by_itself: bool) -> TurnEnded | None:
    """The task handed in and followed to its end on a screen, or as lines with the questions answered here."""
    import asyncio

    stream = session.changes()
    face: Lines | Screen
    if by_itself:
        face = Lines(chat)
    else:
        from hermes_shell.interactive.screen import Screen

        face = Screen(chat, None)
    await chat.begin(face, session, made=False)
    chat.submit(TASK)
    shown = asyncio.create_task(face.run())
    watched = asyncio.create_task(_watch(stream))
    await asyncio.wait((shown, watched), return_when=asyncio.FIRST_COMPLETED)
    face.leave(0)
    await shown
    if not watched.done():
        watched.cancel()  # the person left before the turn was over
        await session.interrupt(reason="the demo was left")
    await chat.detach()
    return None if watched.cancelled() or not watched.done() else watched.result()


async def _watch(stream: Changes) -> TurnEnded | None:
    from hermes_protocol.events import TurnEnded

    async for change in stream:
        if isinstance(change.payload, TurnEnded):
            return change.payload
    return None


class Lines:
    """A Face that prints, and answers questions by itself where everybody can see it."""

    def __init__(self, chat: Chat) -> None:
        import asyncio

        self._chat = chat
        self._answered: set[str] = set()
        self._left = asyncio.Event()

    async def run(self) -> int:
        await self._left.wait()
        return 0

    def print(self, text: str) -> None:
        print(text, flush=True)

    def redraw(self) -> None:
        asked = self._chat.asking.question
        if asked is None or asked.request.request_id in self._answered:
            return
        self._answered.add(asked.request.request_id)
        print("\n".join(asked.lines(self._chat.painter)))
        print("  > 1   (the demo answers its own question)", flush=True)
        self._chat.asking.press("1")

    def restore(self, text: str) -> None:
        print(f"not sent: {text}", flush=True)

    def leave(self, code: int) -> None:
        self._left.set()


# --- the repository -------------------------------------------------------------------------------------------------


def prepare(folder: str) -> tuple[str, str]:
    """Make the repository and the script below `folder`; their paths."""
    repository, script = os.path.join(folder, "shop"), os.path.join(folder, "demo.yaml")
    os.mkdir(repository)
    for name, text in (("prices.py", PRICES), ("test_prices.py", TEST), (".gitignore", "__pycache__/\n")):
        with open(os.path.join(repository, name), "w", encoding="utf-8") as file:
            file.write(text)
    with open(os.path.join(os.path.dirname(__file__), "demo_script.yaml"), encoding="utf-8") as file:
        text = file.read()
    with open(script, "w", encoding="utf-8") as file:
        file.write(text.replace("{python}", python()))
    if shutil.which("git"):
        who = ("-c", "user.name=hermes demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false")
        for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "A shop with a mistake")):
            subprocess.run(("git", *words), cwd=repository, check=True, stdin=subprocess.DEVNULL)
    return repository, script


def python() -> str:
    """How a shell finds a Python: a short name where there is one."""
    import shlex

    return next((name for name in ("python3", "python") if shutil.which(name)), shlex.quote(sys.executable))


def passes(repository: str) -> bool:
    """Whether the repository's tests pass, run by ourselves."""
    words = (sys.executable, "-B", "-m", "unittest", "-q")
    return subprocess.run(words, cwd=repository, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def _verdict(repository: str, session_id: str, ended: TurnEnded | None, keep: bool) -> int:
    good = passes(repository)
    if keep:
        print(f"\nKept: {repository}, and the session: hermes chat --session {session_id}")
    if good and ended is not None and ended.status == "completed":
        print("\nThe test passes now: a model was played, everything else was real. Your turn: hermes chat")
        return 0
    how = "was left" if ended is None else ended.status
    print(f"\nThe demo did not reach its end (turn {how}, test {'passes' if good else 'fails'}).", file=sys.stderr)
    return 1
