"""The files of a tree as Git would see them: .gitignore obeyed, links never followed, `.git` left out.

Ignore files count from the repository's root down; outside a repository from the searched folder down.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeAlias

from pathspec import GitIgnoreSpec

Rules: TypeAlias = tuple[tuple[str, GitIgnoreSpec], ...]
"""(folder, its rules), outermost first."""


def files_below(root: str, repository: str) -> Iterator[str]:
    """Paths relative to `root`, in order of names. Folders that cannot be read are left out."""
    rules: Rules = ()
    folder = repository
    if repository and repository != root:
        for part in os.path.relpath(root, repository).split("/"):
            rules = _with_rules_of(folder, rules)
            folder = os.path.join(folder, part)
    yield from _walk(root, "", rules)


def rules_root(path: str) -> str:
    """The root of the repository whose ignore files hold for `path`; empty outside of one, and when they leave it out:
    who names an ignored folder wants to see into it."""
    repository = repository_of(path)
    folder = repository
    rules: Rules = ()
    for part in os.path.relpath(path, repository).split("/") if repository and path != repository else ():
        rules = _with_rules_of(folder, rules)
        folder = os.path.join(folder, part)
        if _ignored(folder, os.path.isdir(folder), rules):
            return ""
    return repository


def repository_of(path: str) -> str:
    """The folder above (or at) `path` that holds `.git`, or empty."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent


def _walk(folder: str, below: str, rules: Rules) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    rules = _with_rules_of(folder, rules)
    for entry in entries:
        if entry.name == ".git" or entry.is_symlink():
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        if _ignored(entry.path, is_folder, rules):
            continue
        if is_folder:
            yield from _walk(entry.path, f"{below}{entry.name}/", rules)
        elif entry.is_file(follow_symlinks=False):
            yield below + entry.name


def _with_rules_of(folder: str, rules: Rules) -> Rules:
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
            return (*rules, (folder, GitIgnoreSpec.from_lines(file.read().splitlines())))
    except OSError:
        return rules


def _ignored(path: str, is_folder: bool, rules: Rules) -> bool:
    """The innermost rules that say anything decide."""
    for folder, spec in reversed(rules):
        relative = path[len(folder.rstrip("/")) + 1 :] + ("/" if is_folder else "")
        verdict = spec.check_file(relative).include
        if verdict is not None:
            return verdict
    return False
