"""Where plugins are found: the bundled ones, home/plugins, a project's when allowed, installed packages.

A later place does not replace an earlier plugin by taking its name: two of one id are a fault that is shown.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from hermes_daemon.plugins.manifest import FILE, NAME, BadManifest, Manifest, read_manifest

Source: TypeAlias = Literal["bundled", "home", "project", "package"]
ENTRY_POINTS: Final = "hermes_daemon.plugins"
ENTRY_FILES: Final = ("plugin.py", "__init__.py")


class Found(msgspec.Struct, frozen=True):
    """A plugin that is there. `folder` is "" for one of a package, then `entry` is `module:attribute`. `fault` says
    why it cannot be loaded."""

    id: str
    source: Source
    manifest: Manifest
    folder: str = ""
    entry: str = ""
    fault: str = ""
    warnings: tuple[str, ...] = ()


def discover(bundled: str, home: str, project: str = "") -> tuple[Found, ...]:
    """Every plugin, by place and name. `project` is a folder whose `.hermes/plugins` may be used, "" for none."""
    places: list[tuple[Source, str]] = [("bundled", bundled), ("home", os.path.join(home, "plugins"))]
    if project:
        places.append(("project", os.path.join(project, ".hermes", "plugins")))
    found = [each for source, place in places for folder in _folders(place) for each in (read_folder(source, folder),)]
    return tuple(_without_twins([*found, *_packages()]))


def _folders(place: str) -> Iterator[str]:
    """Folders with a plugin.yaml in `place`, or one level below it (a category). Broken links are plugins, too: their
    fault is shown."""
    for name in _listed(place):
        path = os.path.join(place, name)
        if name.startswith((".", "_")) or (os.path.isfile(path) and not os.path.islink(path)):
            continue
        if os.path.isfile(os.path.join(path, FILE)) or not os.path.isdir(path):
            yield path
            continue
        below = [os.path.join(path, each) for each in _listed(path) if not each.startswith((".", "_"))]
        inner = [each for each in below if os.path.isfile(os.path.join(each, FILE))]
        if inner:
            yield from inner
        elif any(os.path.isfile(os.path.join(path, each)) for each in ENTRY_FILES):
            yield path


def _listed(folder: str) -> list[str]:
    """The names in a folder; none where it is missing or not ours to read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def read_folder(source: Source, folder: str) -> Found:
    """The plugin in a folder; what is wrong with it is its `fault`."""
    id = os.path.basename(folder).replace("_", "-").lower()
    if not os.path.isdir(folder):
        return Found(id, source, Manifest(id=id, name=id), folder, fault=f"{folder}: leads nowhere")
    try:
        manifest, warnings = read_manifest(folder)
    except BadManifest as error:
        return Found(id, source, Manifest(id=id, name=id), folder, fault=str(error))
    fault = (
        "" if manifest.retired or entry_file(folder, manifest) else f"{folder}: has neither plugin.py nor __init__.py"
    )
    return Found(manifest.id, source, manifest, folder, fault=fault, warnings=warnings)


def entry_file(folder: str, manifest: Manifest) -> str:
    """The module with `register(ctx)`, "" when there is none."""
    wanted = (manifest.entry,) if manifest.entry else ENTRY_FILES
    paths = [os.path.normpath(name) for name in wanted if name.endswith(".py")]
    names = [name for name in paths if not name.startswith(("..", os.sep))]  # a plugin is its folder
    return next((path for name in names if os.path.isfile(path := os.path.join(folder, name))), "")


def _packages() -> Iterator[Found]:
    """Plugins that installed packages offer: an entry point to a module, or to a `register` function. A plugin.yaml
    beside that module is its manifest; without one the package's own name, version and summary stand for it."""
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        id = point.name.replace("_", "-").lower()
        entry = f"{point.module}:{point.attr}" if point.attr else point.module
        about = point.dist.metadata if point.dist is not None else None
        version = point.dist.version if point.dist is not None else "0"
        summary = str(about["Summary"] or "") if about is not None and "Summary" in about else ""
        manifest, fault = Manifest(id=id, name=id, version=version, description=summary), ""
        warnings: tuple[str, ...] = ()
        folder = _beside(point.module)
        if not NAME.match(id):
            fault = f"entry point {point.name!r}: expected a name that matches {NAME.pattern}"
        elif folder:
            try:
                manifest, warnings = read_manifest(folder)
            except BadManifest as error:
                fault = str(error)
            else:
                name = id if manifest.name == manifest.id else manifest.name
                manifest = msgspec.structs.replace(manifest, id=id, name=name, version=version)
        yield Found(id, "package", manifest, entry=entry, fault=fault, warnings=warnings)


def _beside(module: str) -> str:
    """The folder of a module's plugin.yaml, "" for none. Only the top package is looked up: nothing is imported."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return ""
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = os.path.join(place, *rest)
        for folder in (path, os.path.dirname(path) if rest else path):
            if os.path.isfile(os.path.join(folder, FILE)):
                return folder
    return ""


def _without_twins(found: Iterable[Found]) -> Iterator[Found]:
    """The first of an id keeps it; another one of that id is shown with the fault, and never loaded in its place."""
    first: dict[str, Found] = {}
    for each in found:
        before = first.setdefault(each.id.replace("_", "-"), each)  # the module's name does not tell these apart
        if before is each:
            yield each
        else:
            where = before.folder or before.entry
            fault = f"{each.folder or each.entry}: takes the id {each.id!r} of the {before.source} plugin in {where}"
            yield msgspec.structs.replace(each, fault=fault)
