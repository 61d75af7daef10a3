"""What a command or an edit risks, in words for the person who is asked. A row never decides alone: it changes the
question (no "always", "deny" first), not the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from posixpath import basename

from hermes_daemon.core.commands import Command
from hermes_daemon.core.danger_rows import ROWS, Danger
from hermes_daemon.core.shell_payloads import SHELLS

_INTERPRETERS = SHELLS | frozenset({"python", "python3", "perl", "ruby", "node", "php", "lua", "osascript"})
_MOST = 8192
_DOWNLOADS = re.compile(r"[$<]\(\s*(?:curl|wget|fetch)\b|`\s*(?:curl|wget)\b")
_SYSTEM_PATH = re.compile(r"/(?:etc|usr|bin|sbin|boot|lib\d*|opt|var|root|sys|proc|System|Library)(?:/|$)")
_STARTUP = re.compile(
    r"(?:^|/)(?:\.bashrc|\.bash_profile|\.bash_login|\.profile|\.zshrc|\.zprofile|\.zshenv|\.zlogin|\.kshrc|\.cshrc|"
    r"config\.fish|\.envrc|\.inputrc|\.gitconfig|authorized_keys|crontab|\.xinitrc|\.xprofile)$"
)
_CREDENTIALS = re.compile(
    r"(?:^|[/=@:])(?:\.ssh|\.aws|\.gnupg|\.kube|\.azure|\.password-store|\.netrc|\.git-credentials|\.pgpass|\.pypirc|"
    r"id_(?:rsa|dsa|ecdsa|ed25519))(?:/|$)|^/etc/(?:shadow|gshadow|sudoers)|^/proc/[^/]+/(?:environ|mem)$|"
    r"\.config/(?:gh|gcloud)(?:/|$)|\.docker/config\.json$"
)
_LOADED = re.compile(
    r"(?:LD_PRELOAD|LD_LIBRARY_PATH|DYLD_\w+|BASH_ENV|ENV|PATH|PYTHONSTARTUP|PYTHONPATH|NODE_OPTIONS|PERL5OPT|RUBYOPT|"
    r"GIT_SSH_COMMAND|GIT_SSH|GIT_PAGER|GIT_EDITOR|GIT_EXTERNAL_DIFF|PAGER|EDITOR|VISUAL|PROMPT_COMMAND)\+?="
)


def dangers_of(commands: Iterable[Command]) -> tuple[Danger, ...]:
    """What the commands risk; each kind once."""
    found: dict[str, Danger] = {}
    for command in commands:
        text = command.text[:_MOST]
        for danger, pattern in ROWS:
            if danger.key not in found and pattern.match(text):
                found[danger.key] = danger
        for rule in _RULES:
            danger_or_none = rule(command)
            if danger_or_none is not None:
                found.setdefault(danger_or_none.key, danger_or_none)
    return tuple(found.values())


def edit_danger(path: str) -> Danger | None:
    """What an edit of this file risks beyond its content."""
    if re.search(r"(?:^|/)\.git(?:/|$)", path):
        return Danger("git_folder", "changes git's own files, which can make git run programs")
    if _STARTUP.search(path) or re.search(r"(?:^|/)\.(?:vscode|idea|direnv)/", path):
        return Danger("startup_file", "changes a file that runs by itself later")
    if re.search(r"(?:^|/)\.github/workflows/|(?:^|/)\.gitlab-ci\.yml$|(?:^|/)\.pre-commit-config\.yaml$", path):
        return Danger("automation", "changes what runs automatically for everybody")
    return None


def _pipes_into_interpreter(command: Command) -> Danger | None:
    fed = bool(command.fed_by) and basename(command.fed_by[0]) not in ("echo", "printf", "cat")
    program = re.sub(r"[\d.]+$", "", command.program)
    if program not in _INTERPRETERS:
        return None
    if fed and len(command.words) < 3 and not any(word.endswith((".py", ".sh", ".js")) for word in command.words):
        return Danger("pipe_to_shell", "runs what another command prints, such as a download")
    if any(_DOWNLOADS.search(word) for word in command.words):
        return Danger("pipe_to_shell", "runs what another command prints, such as a download")
    if program in SHELLS and any(word.startswith(("$(", "`")) for word in command.words[1:]):
        return Danger("eval_computed", "runs text that is computed first")
    return None


def _touches_credentials(command: Command) -> Danger | None:
    targets = (
        *command.words[1:],
        *(redirect.target for redirect in command.redirects if "<<" not in redirect.operator),
    )
    if any(_CREDENTIALS.search(target) for target in targets):
        return Danger("credentials", "touches files that hold credentials")
    return None


def _writes_outside(command: Command) -> Danger | None:
    targets = [redirect.target for redirect in command.redirects if redirect.writes]
    if command.program == "tee":
        targets += command.words[1:]
    elif command.program in ("cp", "mv", "install", "ln", "rsync"):
        targets += command.words[-1:]
    elif command.program in ("sed", "perl") and any(re.match(r"-\w*i|--in-place", word) for word in command.words[1:]):
        targets += command.words[2:]
    elif command.program in ("rm", "rmdir", "unlink", "touch", "mkdir"):
        targets += command.words[1:]
    if any(_STARTUP.search(target) for target in targets):
        return Danger("startup_file", "changes a file that runs by itself later")
    if any(re.search(r"(?:^|/)\.git/", target) for target in targets):
        return Danger("git_folder", "changes git's own files, which can make git run programs")
    if any(_SYSTEM_PATH.match(target) for target in targets):
        return Danger("system_files", "changes files of the system")
    return None


def _unset_variable(command: Command) -> Danger | None:
    if command.program == "rm" and any(re.match(r"\$\w+/", word) for word in command.words[1:]):
        return Danger("unset_variable", "deletes from the root if its variable is empty")
    return None


def _loads_code(command: Command) -> Danger | None:
    if command.words and any(_LOADED.match(assignment) for assignment in command.assignments):
        return Danger("loaded_code", "changes which code the command loads")
    return None


_RULES: tuple[Callable[[Command], Danger | None], ...] = (
    _pipes_into_interpreter,
    _touches_credentials,
    _writes_outside,
    _unset_variable,
    _loads_code,
)
