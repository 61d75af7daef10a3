"""Commands that other commands carry: `sudo x`, `sh -c '…'`, `xargs x`, `find -exec x`, `echo … | sh`, `eval …`."""

from __future__ import annotations

from posixpath import basename

import msgspec

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh", "rbash"})
_ECHOES = frozenset({"echo", "printf"})

# Wrappers: the options that take a value, and how many operands stand before the wrapped command.
_WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "sudo": (
        frozenset({"-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R", "--user", "--group", "--chdir"}),
        0,
    ),
    "doas": (frozenset({"-u", "-C"}), 0),
    "env": (frozenset({"-u", "--unset", "-C", "--chdir", "-S", "--split-string"}), 0),
    "nohup": (frozenset(), 0),
    "setsid": (frozenset(), 0),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "ionice": (frozenset({"-c", "-n", "-p"}), 0),
    "chrt": (frozenset(), 1),
    "taskset": (frozenset(), 1),
    "timeout": (frozenset({"-s", "-k", "--signal", "--kill-after"}), 1),
    "time": (frozenset({"-f", "-o"}), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "command": (frozenset(), 0),
    "builtin": (frozenset(), 0),
    "exec": (frozenset({"-a"}), 0),
    "busybox": (frozenset(), 0),
    "toybox": (frozenset(), 0),
    "xargs": (
        frozenset({"-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "-i", "--max-args", "--max-procs", "--replace"}),
        0,
    ),
    "parallel": (frozenset({"-j", "--jobs", "-I"}), 0),
    "chroot": (frozenset(), 1),
    "unshare": (frozenset(), 0),
    "nsenter": (frozenset({"-t", "--target"}), 0),
    "strace": (frozenset({"-e", "-o", "-p"}), 0),
    "ltrace": (frozenset({"-e", "-o", "-p"}), 0),
    "flock": (frozenset({"-w", "-E"}), 1),
    "unbuffer": (frozenset(), 0),
    "caffeinate": (frozenset({"-t", "-w"}), 0),
    "systemd-run": (frozenset({"-p", "--property", "--unit", "-u"}), 0),
    "dbus-run-session": (frozenset(), 0),
}
_JOINED: dict[str, tuple[frozenset[str], int]] = {
    "watch": (frozenset({"-n", "--interval"}), 0),
    "ssh": (
        frozenset({"-p", "-i", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-E", "-m", "-S", "-W", "-w"}),
        1,
    ),
}
_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


class Inner(msgspec.Struct, frozen=True):
    """What a command carries: word lists, and texts for a shell. `folder` is where they run, if that is told."""

    commands: tuple[tuple[str, ...], ...] = ()
    scripts: tuple[str, ...] = ()
    folder: str = ""
    assignments: tuple[str, ...] = ()


def inner_of(words: tuple[str, ...], fed_by: tuple[str, ...], documents: tuple[str, ...]) -> Inner:
    """What these words carry; `fed_by` are the words whose output they read, `documents` their here-texts."""
    if not words:
        return Inner()
    program = basename(words[0])
    if program in SHELLS:
        return Inner(scripts=_shell_scripts(words, fed_by, documents))
    if program == "eval":
        return Inner(scripts=(" ".join(words[1:]),))
    if program in ("su", "runuser"):
        return Inner(scripts=_value_of(words, "-c", "--command"))
    if program == "trap":
        return Inner(scripts=words[1:2])
    if program == "find":
        return Inner(commands=_find_commands(words))
    if program in _JOINED:
        rest, _ = _after_options(words, *_JOINED[program])
        return Inner(scripts=(" ".join(rest),) if rest else ())
    if program in _WRAPPERS:
        return _wrapped(program, words, fed_by)
    return Inner()


def _wrapped(program: str, words: tuple[str, ...], fed_by: tuple[str, ...]) -> Inner:
    rest, assignments = _after_options(words, *_WRAPPERS[program])
    scripts = _value_of(words, "-S", "--split-string") if program == "env" else ()
    folder = "".join(_value_of(words, "-C" if program == "env" else "-D", "--chdir")[:1])
    if program == "command" and len(words) > 1 and words[1] in ("-v", "-V"):
        return Inner()
    if program == "xargs" and rest:
        told = fed_by[1:] if fed_by and basename(fed_by[0]) in _ECHOES else ()
        rest = (*rest, *(word for text in told for word in text.split()))
    return Inner((rest,) if rest else (), scripts, folder if program in ("env", "sudo") else "", assignments)


def _after_options(
    words: tuple[str, ...], valued: frozenset[str], operands: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the words of the wrapped command, the assignments before it)."""
    at, assignments = 1, []
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word.startswith("-") and len(word) > 1:
            at += 2 if word in valued else 1
        elif "=" in word and word.partition("=")[0].isidentifier():
            assignments.append(word)
            at += 1
        else:
            break
    return words[at + operands :], tuple(assignments)


def _shell_scripts(words: tuple[str, ...], fed_by: tuple[str, ...], documents: tuple[str, ...]) -> tuple[str, ...]:
    at, command = 1, False
    while at < len(words) and words[at][:1] in ("-", "+") and len(words[at]) > 1:
        word = words[at]
        if not word.startswith("--") and "c" in word[1:]:
            command = True
        at += 2 if word in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") else 1
    if command:
        return words[at : at + 1]
    if at < len(words) and words[at] not in ("-", "/dev/stdin"):
        return ()
    if fed_by and basename(fed_by[0]) in _ECHOES:
        told = [word for word in fed_by[1:] if word not in ("-e", "-n", "-en", "-ne", "-E")]
        documents = (*documents, " ".join(told).replace("\\n", "\n"))
    return documents


def _value_of(words: tuple[str, ...], *names: str) -> tuple[str, ...]:
    found: list[str] = []
    for index, word in enumerate(words):
        if word in names and index + 1 < len(words):
            found.append(words[index + 1])
        found += [word.partition("=")[2] for name in names if name.startswith("--") and word.startswith(f"{name}=")]
    return tuple(found)


def _find_commands(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The commands of -exec, with the start folders put in for {}."""
    starts = find_starts(words)
    commands: list[tuple[str, ...]] = []
    for index, word in enumerate(words):
        if word in _RUNS:
            body: list[str] = []
            for part in words[index + 1 :]:
                if part in (";", "+"):
                    break
                body += starts if part == "{}" else [part]
            if body:
                commands.append(tuple(body))
    return tuple(commands)


def find_starts(words: tuple[str, ...]) -> list[str]:
    """The folders a `find` begins at."""
    starts: list[str] = []
    for word in words[1:]:
        if word in ("-H", "-L", "-P"):
            continue
        if word[:1] in ("-", "(", "!"):
            break
        starts.append(word)
    return starts or ["."]
