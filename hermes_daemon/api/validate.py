"""`hermes-daemon plugins validate`: a plugin's folder looked at without a daemon, and on request run in the harness."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from hermes_daemon.api.testing import PluginFailed, install
from hermes_daemon.middleware.points import ALIASES
from hermes_daemon.plugins.discovery import Found, discover
from hermes_daemon.plugins.manifest import FILE, read_manifest
from hermes_daemon.plugins.validating import Finding, findings
from hermes_local.address import AddressError, resolve

USAGE = """\
usage: hermes-daemon plugins validate PATH|ID [--run]

PATH is a plugin's folder, ID a plugin of this home. --run also imports it and calls register(ctx), without a daemon.
Exit code: 0 it can be used, 1 it cannot, 2 usage.
"""


def main(argv: Sequence[str], bundled: str, environ: Mapping[str, str] | None = None, out: TextIO | None = None) -> int:
    """Run one command; see USAGE. `bundled` is the folder of the shipped plugins."""
    out = out or sys.stdout
    environ = os.environ if environ is None else environ
    words = [word for word in argv if word != "--run"]
    if words and words[0] in ("-h", "--help", "help"):
        out.write(USAGE)
        return 0
    if len(words) != 2 or words[0] != "validate":
        print(USAGE, end="", file=sys.stderr)
        return 2
    try:
        folder = _folder(words[1], bundled, environ)
    except (LookupError, AddressError) as error:
        print(f"hermes-daemon plugins: {error}", file=sys.stderr)
        return 1
    rows = [*findings(folder, environ.get)]
    broken = any(row.level == "error" for row in rows)
    if "--run" in argv and not broken:
        rows += _ran(folder, environ)
        broken = any(row.level == "error" for row in rows)
    for row in rows:
        print(row, file=sys.stderr)
    if broken:
        return 1
    manifest, _ = read_manifest(folder)
    print(f"{manifest.id} {manifest.version} in {folder} is valid", file=out)
    return 0


def _folder(name: str, bundled: str, environ: Mapping[str, str]) -> str:
    """The folder that a path or an id means."""
    if os.path.isdir(name):
        return os.path.abspath(name)
    found: Sequence[Found] = discover(bundled, resolve(environ).home)
    for each in found:
        if each.id == name:
            if not each.folder:
                raise LookupError(f"{name} is part of an installed package ({each.entry}): expected a folder")
            return each.folder
    known = ", ".join(each.id for each in found) or "none"
    raise LookupError(f"{name!r} is neither a folder nor a plugin of this home; there are: {known}")


def _ran(folder: str, environ: Mapping[str, str]) -> list[Finding]:
    """Load it over an estate in memory and compare what it registers with what its manifest says."""
    manifest, _ = read_manifest(folder)
    defaults = [key for key, field in manifest.config_schema.items() if field.required]
    missing = [f"{name} is not set" for name in manifest.requires_env if not environ.get(name)]
    if missing or defaults:
        wanted = [*missing, *(f"the setting {key} is required" for key in defaults)]
        return [Finding("warning", f"not run: {'; '.join(wanted)}")]
    try:
        with install(folder, secrets=environ, capabilities=manifest.capabilities) as plugin:
            tools = {tool.card.name for tool in plugin.estate.tools}
            points = {link.point for link in plugin.registry.rows()}
    except PluginFailed as failed:
        return [Finding("error", str(failed))]
    said = {ALIASES.get(name, name) for name in (*manifest.provides_hooks, *manifest.hooks,
                                                 *manifest.provides_middleware)}  # fmt: skip
    path = os.path.join(folder, FILE)
    rows = [Finding("error", f"{path}: provides_tools: {name} is not registered")
            for name in sorted(set(manifest.provides_tools) - tools)]  # fmt: skip
    rows += [Finding("error", f"{path}: nothing is registered at {name}") for name in sorted(said - points)]
    rows += [Finding("warning", f"{path}: provides_tools does not name {name}")
             for name in sorted(tools - set(manifest.provides_tools))]  # fmt: skip
    rows += [Finding("warning", f"{path}: provides_hooks or provides_middleware does not name {name}")
             for name in sorted(points - said)]  # fmt: skip
    return rows
