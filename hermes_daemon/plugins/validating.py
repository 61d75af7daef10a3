"""What is wrong with a plugin's folder, found without running any of its code."""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from hermes_daemon.middleware.points import ALIASES, POINTS
from hermes_daemon.plugins.config_schema import schema_faults
from hermes_daemon.plugins.discovery import entry_file, read_folder
from hermes_daemon.plugins.manifest import FILE, Manifest
from hermes_daemon.plugins.requirements import unmet


class Finding(msgspec.Struct, frozen=True):
    """`error`: it cannot work. `warning`: it works, and something is amiss or missing on this machine."""

    level: Literal["error", "warning"]
    text: str

    def __str__(self) -> str:
        return f"{self.level}: {self.text}"


def findings(folder: str, secret: Callable[[str], str | None]) -> tuple[Finding, ...]:
    """Everything that is wrong with the plugin in `folder`; () when nothing is. `secret` reads environment names."""
    if not os.path.isfile(os.path.join(folder, FILE)):
        return (Finding("error", f"{folder}: has no {FILE}"),)
    found = read_folder("home", folder)
    if found.fault:
        return (Finding("error", found.fault),)
    manifest = found.manifest
    rows = [Finding("warning", text) for text in found.warnings]
    if manifest.retired:
        return (*rows, Finding("warning", f"{folder}: is retired: {manifest.retired}"))
    rows += [
        Finding("error", f"{os.path.join(folder, FILE)}: {each}") for each in schema_faults(manifest.config_schema)
    ]
    rows += _names(os.path.join(folder, FILE), manifest)
    rows += [
        Finding("warning", f"on this machine: {text}") for text in unmet(manifest, lambda name: os.environ.get(name))
    ]
    rows += _code(folder, entry_file(folder, manifest))
    return tuple(rows)


def _names(path: str, manifest: Manifest) -> Iterator[Finding]:
    known = [*POINTS, *ALIASES]
    fields = {"provides_hooks": manifest.provides_hooks, "hooks": manifest.hooks,
              "provides_middleware": manifest.provides_middleware}  # fmt: skip
    for field, names in fields.items():
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f", did you mean {near[0]!r}?" if near else ""
                yield Finding("error", f"{path}: {field}: no point is called {name!r}{hint}")


def _code(folder: str, entry: str) -> Iterator[Finding]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(names):
            path = os.path.join(place, name)
            if not name.endswith(".py"):
                continue
            try:
                with open(path, "rb") as file:
                    tree = ast.parse(file.read(), path)
            except (SyntaxError, ValueError) as error:
                line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
                yield Finding("error", f"{path}: {line}{getattr(error, 'msg', None) or error}")
                continue
            except OSError as error:
                yield Finding("error", f"{path}: {error.strerror}")
                continue
            if path == entry and "register" not in set(_bound(tree)):
                yield Finding("error", f"{path}: has no function register(ctx)")


def _bound(tree: ast.Module) -> Iterator[str]:
    """The names a module binds at its top level."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((each.asname or each.name) for each in node.names)
        elif isinstance(node, ast.Assign):
            yield from (each.id for each in node.targets if isinstance(each, ast.Name))
