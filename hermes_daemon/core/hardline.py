"""Commands that never run, whatever the mode, the grants or the settings say: they end the machine, not a task.

Judged at command position, in every payload that can be read (`sh -c`, `sudo`, `eval`, `xargs`, substitutions); a
command that is only spoken of, in quotes or in a here-document for another program, is not one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from posixpath import basename, join, normpath

from hermes_daemon.core.commands import Command, Parsed, expand_home
from hermes_daemon.core.shell_lexer import lex
from hermes_daemon.core.shell_payloads import find_starts


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SYSTEM = _names(
    "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /opt /proc /root /run /sbin /srv /sys /usr /var "
    "/usr/bin /usr/lib /usr/lib64 /usr/sbin /usr/share /var/lib /Users /System /Library /Applications /private "
    "/private/etc /private/var /Volumes"
)
_SOMEONES_HOME = re.compile(r"/(?:home|Users)/[^/*?]+|~[\w.-]*")
_DEVICE = re.compile(
    r"/dev/(?:[shv]d[a-z]\d*|xvd[a-z]\d*|nvme\d+n\d+(?:p\d+)?|mmcblk\d+(?:p\d+)?|r?disk\d+(?:s\d+)?|dm-\d+|md\d+|"
    r"mapper/\S+|disk/by-\S+)"
)
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_BOMB = re.compile(r"(?:^| )(\S+) \( \) (?:\n )*\{ (?:\S+ )*?\1 \| \1 (?:\S+ )*?& ")
_POWER = frozenset({"shutdown", "reboot", "halt", "poweroff"})
_POWER_UNITS = frozenset({"poweroff", "reboot", "halt", "kexec", "soft-reboot", "emergency", "rescue"})
_NARROWING = ("-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-newer", "-mtime", "-mmin", "-size", "-empty",
              "-user", "-group", "-perm", "-samefile", "-inum", "-atime", "-ctime")  # fmt: skip
_DELETERS = frozenset({"rm", "unlink", "shred", "srm"})


def hardline(parsed: Parsed, home: str = "") -> str:
    """Why the line never runs, or an empty text."""
    if not parsed.whole:
        return "it is longer or more deeply nested than can be checked; put it into a script file"
    for script in parsed.scripts:
        if _is_bomb(script):
            return "it is a fork bomb"
    for command in parsed.commands:
        for rule in _RULES:
            reason = rule(command, home)
            if reason:
                return reason
    return ""


def _deletes_system(command: Command, home: str) -> str:
    if command.program not in ("rm", "srm") or not _recursive(command.words):
        return ""
    return _deleting(_operands(command.words), command, home)


def _finds_and_deletes(command: Command, home: str) -> str:
    words = command.words
    if command.program != "find" or any(word.startswith(_NARROWING) for word in words):
        return ""
    runs = {basename(after) for word, after in pairwise(words) if word in ("-exec", "-execdir", "-ok")}
    return _deleting(find_starts(words), command, home) if "-delete" in words or runs & _DELETERS else ""


def _deleting(targets: list[str], command: Command, home: str) -> str:
    for target in targets:
        for path in _braces_expanded(target):
            if is_vital(path, command.cwd, home):
                return f"it deletes {target} with everything in it"
    return ""


def is_vital(path: str, cwd: str = "", home: str = "") -> bool:
    """Whether a path (or glob) means the root, a system folder, someone's home, or everything in one of them."""
    path = expand_home(path, home)
    while path.endswith(("/*", "/.*", "/.", "/**", "/.[!.]*")):
        path = path.rpartition("/")[0] or "/"
    if path in ("*", ".*", ".", "./"):
        path = "."
    if not path.startswith(("/", "~")):
        if not cwd:
            return False
        path = join(expand_home(cwd, home), path)
    path = re.sub("^//", "/", normpath(path))
    if path in _SYSTEM or (home and path == home) or _SOMEONES_HOME.fullmatch(path):
        return True
    return path.count("/") == 1 and any(mark in path for mark in "*?[")


def _formats(command: Command, home: str) -> str:
    del home
    program = command.program
    if program.startswith(("mkfs", "newfs")) or program in ("mke2fs", "wipefs", "blkdiscard"):
        return "it formats or wipes a disk"
    return ""


def _writes_device(command: Command, home: str) -> str:
    del home
    targets = [redirect.target for redirect in command.redirects if redirect.writes]
    words = command.words
    if command.program == "dd":
        targets += [word[3:] for word in words if word.startswith("of=")]
    elif command.program in ("tee", "shred", "truncate"):
        targets += words[1:]
    elif command.program in ("cp", "mv", "install", "ddrescue"):
        targets += words[-1:]
    if any(target.startswith("/proc/sysrq-trigger") for target in targets):
        return "it gives the kernel a direct order"
    hit = next((target for target in targets if _DEVICE.fullmatch(target)), "")
    return f"it writes over the disk {hit}" if hit else ""


def _kills_everything(command: Command, home: str) -> str:
    del home
    if command.program == "killall5":
        return "it kills every process"
    if command.program != "kill":
        return ""
    words = list(command.words[1:])
    if words and words[0] in ("-s", "-n", "--signal"):
        words = words[2:]
    elif len(words) > 1 and re.fullmatch(r"-\w+|--signal=\w+", words[0]):
        words = words[1:]
    return "it kills every process" if "-1" in words else ""


def _ends_machine(command: Command, home: str) -> str:
    del home
    program, words = command.program, command.words[1:]
    if any(word in ("--help", "--version", "-c") for word in words):
        return ""
    power = program in _POWER
    level = program in ("init", "telinit") and words[:1] in (("0",), ("6",))
    unit = program in ("systemctl", "loginctl") and bool(_POWER_UNITS.intersection(words))
    return "it stops or restarts the machine" if power or level or unit else ""


_RULES: tuple[Callable[[Command, str], str], ...] = (
    _deletes_system,
    _finds_and_deletes,
    _formats,
    _writes_device,
    _kills_everything,
    _ends_machine,
)


def _is_bomb(script: str) -> bool:
    if "(" not in script or "|" not in script:
        return False
    return _BOMB.search(" ".join(token.text.replace(" ", "\x01") for token in lex(script).tokens)) is not None


def _recursive(words: tuple[str, ...]) -> bool:
    for word in words[1:]:
        if word == "--":
            return False
        if word == "--recursive" or (re.fullmatch(r"-[a-zA-Z]+", word) and set(word) & {"r", "R"}):
            return True
    return False


def _operands(words: tuple[str, ...]) -> list[str]:
    ended = False
    found: list[str] = []
    for word in words[1:]:
        if word == "--":
            ended = True
        elif ended or not word.startswith("-"):
            found.append(word)
    return found


def _braces_expanded(word: str, most: int = 64) -> list[str]:
    done: list[str] = []
    pending = [word]
    while pending and len(done) + len(pending) <= most:
        current = pending.pop()
        match = _BRACES.search(current)
        if match is None:
            done.append(current)
        else:
            pending += [current[: match.start()] + part + current[match.end() :] for part in match.group(1).split(",")]
    return done + pending
