"""plugin.yaml: what a plugin says of itself."""

from __future__ import annotations

import difflib
import os
import re
from typing import Any, Final, Literal

import msgspec

NAME: Final = re.compile(r"^[a-z0-9][a-z0-9_-]{0,63}$")
FILE: Final = "plugin.yaml"


class BadManifest(Exception):
    """A manifest that cannot be used: the file, the field, what was wrong and what was expected."""


class Required(msgspec.Struct, frozen=True):
    """Another plugin that must be loaded before. `version_range` is for people; it is shown, not solved."""

    id: str
    version_range: str = ""


class ConfigField(msgspec.Struct, frozen=True):
    """One setting of a plugin. `type` as in config_schema.TYPES; `choices` and `enum` mean the same."""

    type: str = "string"
    default: Any = msgspec.UNSET
    description: str = ""
    label: str = ""
    required: bool = False
    choices: tuple[Any, ...] | None = None
    enum: tuple[Any, ...] | None = None
    secret: bool = False
    env: str = ""
    minimum: float | None = None
    maximum: float | None = None
    items: str = ""


class Manifest(msgspec.Struct, frozen=True):
    """plugin.yaml. `id` is the folder's name with `-` for `_` where the file does not say it."""

    name: str = ""
    id: str = ""
    version: str = "0"
    description: str = ""
    author: str = ""
    label: str = ""
    kind: Literal["standalone", "backend", "exclusive", "platform", "model-provider"] = "standalone"
    manifest_version: int = 1
    api_version: int = 1
    entry: str = ""
    provides_tools: tuple[str, ...] = ()
    provides_hooks: tuple[str, ...] = ()
    provides_middleware: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    requires_env: tuple[str, ...] = ()
    optional_env: tuple[str, ...] = ()
    requires_plugins: tuple[str | Required, ...] = ()
    requires_hermes: str = ""
    python_dependencies: tuple[str, ...] = ()
    pip_dependencies: tuple[str, ...] = ()
    external_dependencies: tuple[Any, ...] = ()
    platforms: tuple[str, ...] = ()
    config_schema: dict[str, ConfigField] = {}
    capabilities: tuple[str, ...] = ()
    emits: tuple[str, ...] = ()
    listens: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    license: str = ""
    homepage: str = ""
    retired: str = ""

    @property
    def requires(self) -> tuple[str, ...]:
        """Ids of the plugins this one needs."""
        return tuple(each if isinstance(each, str) else each.id for each in self.requires_plugins)


def read_manifest(folder: str) -> tuple[Manifest, tuple[str, ...]]:
    """(the manifest of a plugin's folder, warnings about fields it should not have). BadManifest."""
    import yaml

    path = os.path.join(folder, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            values = yaml.load(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except OSError as error:
        raise BadManifest(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadManifest(f"{path}: is not UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise BadManifest(f"{path}:{where} {getattr(error, 'problem', None) or 'is not YAML'}") from None
    return parse_manifest(values, path, os.path.basename(os.path.abspath(folder)))


def parse_manifest(values: Any, path: str, folder: str) -> tuple[Manifest, tuple[str, ...]]:
    """The manifest in `values`, read from `path`. BadManifest naming the field."""
    if not isinstance(values, dict):
        raise BadManifest(f"{path}: expected fields such as `name: …`, got {type(values).__name__}")
    known = Manifest.__struct_fields__
    warnings = []
    for key in [key for key in values if key not in known]:
        near = difflib.get_close_matches(str(key), known, 1)
        warnings.append(f"{path}: unknown field {key!r}" + (f", did you mean {near[0]!r}?" if near else ""))
    try:
        manifest = msgspec.convert({key: each for key, each in values.items() if key in known}, Manifest)
    except msgspec.ValidationError as error:
        raise BadManifest(f"{path}: {error}") from None
    id = manifest.id or folder.replace("_", "-")
    if not NAME.match(id):
        raise BadManifest(f"{path}: id: expected {NAME.pattern}, got {id!r}")
    if manifest.api_version != 1:
        raise BadManifest(f"{path}: api_version: this daemon speaks 1, the plugin wants {manifest.api_version}")
    return msgspec.structs.replace(manifest, id=id, name=manifest.name or id), tuple(warnings)
