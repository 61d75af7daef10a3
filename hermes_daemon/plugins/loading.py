"""A plugin's code, imported under a name of its own and forgotten again without a trace."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from hermes_daemon.plugins.discovery import Found, entry_file

ROOT = "hermes_plugins"


class BadPlugin(Exception):
    """The code cannot be used: which file, and why."""


class _Fresh(importlib.machinery.SourceFileLoader):
    """Compiles the file as it is now. Bytecode of before is told apart by the second and the size only: a plugin that
    was saved and reloaded within a second would be the old one."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        code: types.CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules of plugin folders as Python does, to be read by `_Fresh`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if path is None or not fullname.startswith(f"{ROOT}_"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _Fresh(spec.loader.name, spec.loader.path)
        return spec


def import_register(found: Found) -> Callable[[Any], Any]:
    """The plugin's `register` function. BadPlugin for a module without one; whatever the import raises."""
    if not found.folder:
        return _from_package(found)
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    path = entry_file(found.folder, found.manifest)
    name = module_name(found.id)
    forget(found.id)  # what a load that was given up may have left
    if os.path.relpath(path, found.folder) == "__init__.py":
        spec = importlib.util.spec_from_file_location(
            name, path, loader=_Fresh(name, path), submodule_search_locations=[found.folder]
        )
        if spec is None or spec.loader is None:
            raise BadPlugin(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    else:
        sys.modules[name] = _package(name, found.folder)
        below = os.path.relpath(path, found.folder).removesuffix(".py").replace(os.sep, ".")
        module = importlib.import_module(f"{name}.{below}")
    register: Callable[[Any], Any] | None = getattr(module, "register", None)
    if not callable(register):
        raise BadPlugin(f"{path} has no function register(ctx)")
    return register


def _package(name: str, folder: str) -> types.ModuleType:
    """An empty package over a folder, so that its modules find each other by relative imports."""
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [folder]
    return importlib.util.module_from_spec(spec)


def _from_package(found: Found) -> Callable[[Any], Any]:
    module, _, attribute = found.entry.partition(":")
    importlib.invalidate_caches()
    value: Any = importlib.import_module(module)
    for part in (attribute or "register").split("."):
        value = getattr(value, part, None)
    if isinstance(value, types.ModuleType):
        value = getattr(value, "register", None)
    if not callable(value):
        raise BadPlugin(f"{found.entry} is no function register(ctx)")
    register: Callable[[Any], Any] = value
    return register


def forget(id: str) -> None:
    """Take the plugin's modules out of the interpreter, so that the next load reads its files again. Modules of an
    installed package stay: others may use them, and a new version of it is read by the next daemon."""
    name = module_name(id)
    for module in [each for each in tuple(sys.modules) if each == name or each.startswith(f"{name}.")]:
        sys.modules.pop(module, None)
    importlib.invalidate_caches()


def module_name(id: str) -> str:
    """The name a plugin's package has in the interpreter."""
    return f"{ROOT}_{id.replace('-', '_')}"
