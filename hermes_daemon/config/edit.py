"""Writing one setting into config.yaml: comments kept, checked before it is there, there whole or not at all."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec

from hermes_daemon.config.decode import expectation, struct_in
from hermes_daemon.config.loading import load_text, read_text
from hermes_daemon.config.problem import Key, Notes, dotted, nearest
from hermes_daemon.config.secrets import Secrets
from hermes_daemon.core.ports import Refused
from hermes_daemon.core.settings import Settings

_INDENTED_LIST = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n\1 +- ", re.MULTILINE)


def change(path: str, key: Key, value: Any, environ: Mapping[str, str], secret: Secrets) -> None:
    """Set `key` in the file at `path` (made when absent, mode 0600) to plain data, or remove it with None.

    Refused (kind invalid_params) with nothing written: the key is unknown, the value does not fit, the file holds
    faults already that the change does not mend, or it cannot be written.
    """
    annotation(key)
    notes = Notes(path)
    text = read_text(path, notes) or ""
    if notes.errors:
        raise _refused(str(notes.errors[0]))
    new = _edited(text, path, key, value)
    faults = load_text(new, path, environ, secret, Notes(path)).errors
    for fault in faults:
        if fault.key == dotted(key) or fault.key.startswith((dotted(key) + ".", dotted(key) + "[")):
            raise _refused(f"{fault.key}: {fault.message}")
    if faults:
        raise _refused(f"{faults[0]}", "Mend this first: `hermes-daemon config validate` shows everything.")
    try:
        _replace(path, new)
    except OSError as error:
        raise _refused(f"{path} cannot be written: {error.strerror}.") from None


def annotation(key: Key) -> Any:
    """The type of the setting at `key`; Refused with the nearest name when there is none."""
    found: Any = Settings
    for index, part in enumerate(key):
        struct, origin = struct_in(found), get_origin(found)
        if origin is dict:
            found = get_args(found)[1]
            continue
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)} if struct else {}
        if part not in fields:
            where = f" in {dotted(key[:index])}" if index else ""
            raise _refused(
                f"There is no setting `{part}`{where}.", nearest(str(part), fields).strip(" ()").capitalize()
            )
        found = fields[str(part)]
    if not key:
        raise _refused("There is no setting with an empty name.")
    return found


def from_words(key: Key, words: str) -> Any:
    """The plain data that the text of a command line stands for: YAML when that fits the setting, else the text.

    So `50` is a number for agent.max_rounds and text for model.default, and `[a, b]` is a list. Refused when neither
    fits.
    """
    from hermes_daemon.config.decode import decode
    from hermes_daemon.config.document import parse

    notes = Notes("")
    document = parse(f"value: {words}\n", notes) if "\n" not in words else None
    candidates = [words] if document is None or len(document.values) != 1 else [document.values["value"], words]
    for candidate in candidates:
        nested: Any = candidate
        for part in reversed(key):
            nested = {part: nested}
        trial = Notes("")
        decode(nested, trial)
        if not any(fault.key.startswith(dotted(key)) for fault in trial.errors):
            return candidate
    raise _refused(f"{dotted(key)}: expected {expectation(annotation(key))}, got {words[:60]!r}.")


def _refused(reason: str, hint: str = "") -> Refused:
    return Refused(reason, hint, kind="invalid_params")


def _edited(text: str, path: str, key: Key, value: Any) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.allow_duplicate_keys = True
    yaml.width = 4096
    if _INDENTED_LIST.search(text):
        yaml.indent(mapping=2, sequence=4, offset=2)
    try:
        root = yaml.load(text)
    except YAMLError as error:
        raise _refused(f"{path} is not valid YAML: {str(error).splitlines()[0]}.") from None
    kept = ""
    if root is None:  # Nothing but comments: the emitter has no value to hang them on.
        root, kept = CommentedMap(), text
    at = root
    for part in key[:-1]:
        if isinstance(at, dict) and at.get(part) is None:
            if value is None:
                return text
            at[part] = CommentedMap()
        at = at[part] if isinstance(at, dict) else None
    if not isinstance(at, dict):
        raise _refused(f"{dotted(key[:-1]) or 'The top'} in {path} is not a section.")
    if value is None:
        at.pop(key[-1], None)
    else:
        at[key[-1]] = _quoted(value)
    out = io.StringIO()
    yaml.dump(root, out)
    return (kept.rstrip("\n") + "\n" if kept.strip() else "") + out.getvalue()


def _quoted(value: Any) -> Any:
    """Text that a YAML 1.1 reader would take for something else goes into quotes, and a `$` stays a `$`."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, dict):
        return {name: _quoted(below) for name, below in value.items()}
    if isinstance(value, list | tuple):
        return [_quoted(below) for below in value]
    if isinstance(value, str) and value.lower() in {"yes", "no", "on", "off", "y", "n"}:
        return DoubleQuotedScalarString(value)
    return value


def _replace(path: str, text: str) -> None:
    path = os.path.realpath(path)  # The link stays a link.
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
    handle, temporary = tempfile.mkstemp(prefix=".config-", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
