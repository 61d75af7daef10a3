"""A plugin's code, imported under a name of its own and forgotten again without a trace."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

from hermes_daemon.plugins.discovery import Found, entry_file

ROOT = "hermes_plugins"


class BadPlugin(Exception):
    """The code cannot be used: which file, and why."""


def import_register(found: Found) -> Callable[[Any], Any]:
    """The plugin's `register` function. BadPlugin for a module without one; whatever the import raises."""
    if not found.folder:
        return _from_package(found)
    path = entry_file(found.folder, found.manifest)
    name = module_name(found.id)
    if path.endswith("__init__.py"):
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[found.folder])
        if spec is None or spec.loader is None:
            raise BadPlugin(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    else:
        package = types.ModuleType(name)
        package.__path__ = [found.folder]
        sys.modules[name] = package
        module = importlib.import_module(f"{name}.{path.rsplit('/', 1)[-1].removesuffix('.py')}")
    register: Callable[[Any], Any] | None = getattr(module, "register", None)
    if not callable(register):
        raise BadPlugin(f"{path} has no function register(ctx)")
    return register


def _from_package(found: Found) -> Callable[[Any], Any]:
    module, _, attribute = found.entry.partition(":")
    value = importlib.import_module(module)
    for part in (attribute or "register").split("."):
        value = getattr(value, part, None)  # type: ignore[assignment]
    if not callable(value):
        raise BadPlugin(f"{found.entry} is no function register(ctx)")
    return value


def forget(id: str) -> None:
    """Take the plugin's modules out of the interpreter, so that the next load reads its files again."""
    name = module_name(id)
    for module in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[module]
    importlib.invalidate_caches()


def module_name(id: str) -> str:
    """The name a plugin's package has in the interpreter."""
    return f"{ROOT}_{id.replace('-', '_')}"
