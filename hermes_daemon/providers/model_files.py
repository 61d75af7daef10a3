"""The model files that lie in the models folder: their names, and where a name leads."""

from __future__ import annotations

import os

import msgspec

SUFFIX = ".gguf"


class ModelFile(msgspec.Struct, frozen=True):
    """A model of the embedded provider: `local/<name>`."""

    name: str
    path: str
    bytes: int


def list_models(models_dir: str) -> tuple[ModelFile, ...]:
    """The models in the folder, by name. A folder that is not there holds none."""
    try:
        entries = [entry for entry in os.scandir(models_dir) if entry.name.endswith(SUFFIX) and entry.is_file()]
    except OSError:
        return ()
    files = (ModelFile(entry.name.removesuffix(SUFFIX), entry.path, entry.stat().st_size) for entry in entries)
    return tuple(sorted(files, key=lambda file: file.name))


def find_model(models_dir: str, name: str, configured: str = "") -> str | None:
    """The path for a model's name: the configured file when it has that name, else the one in the folder."""
    if os.sep in configured and model_name(configured) == name:
        path = os.path.expanduser(configured)
        return path if os.path.isfile(path) else None
    path = os.path.join(models_dir, name + SUFFIX)
    return path if os.sep not in name and os.path.isfile(path) else None


def model_name(model: str) -> str:
    """The name of `local.model`, which is a name or a path."""
    return os.path.basename(model).removesuffix(SUFFIX)
