"""One reading of the configuration: files and environment in, settings and everything worth saying out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes_daemon.config import otel
from hermes_daemon.config.problem import ConfigError, Key, Notes, dotted
from hermes_daemon.config.secrets import Secrets, read_env_file
from hermes_daemon.core.settings import Settings

MAX_FILE_BYTES = 4_194_304

OVERRIDES: dict[str, tuple[Key, dict[str, Any] | None]] = {
    "HERMES_YOLO_MODE": (("approvals", "mode"), {"true": "off", "false": msgspec.UNSET}),
    "HERMES_REDACT_SECRETS": (("security", "redact_secrets"), {"true": True, "false": False}),
    "HERMES_SAFE_MODE": (("plugins", "safe_mode"), {"true": True, "false": False}),
    "HERMES_ENABLE_PROJECT_PLUGINS": (("plugins", "project"), {"true": True, "false": False}),
    "HERMES_ACCEPT_HOOKS": (("hooks_auto_accept",), {"true": True, "false": False}),
    "HERMES_MAX_ITERATIONS": (("agent", "max_rounds"), None),
}
"""Variable -> the setting it replaces, and what a true or a false word means there (None: the text is the value)."""

_WORDS = {"1": "true", "true": "true", "yes": "true", "on": "true"}
_WORDS |= {"0": "false", "false": "false", "no": "false", "off": "false", "": "false"}


class Loaded(msgspec.Struct, frozen=True):
    """`settings` are whole and typed also when there are `errors`; then the faulty values have their defaults, or all
    have when the file cannot be read at all. `sources` says where each dotted key that is not a default came from:
    `config.yaml:12` or the variable's name. `masked` are keys whose text holds values of home/.env."""

    settings: Settings
    path: str
    secret: Secrets
    warnings: tuple[str, ...] = ()
    errors: tuple[ConfigError, ...] = ()
    sources: dict[str, str] = {}
    masked: frozenset[str] = frozenset()


def config_path(home: str, environ: Mapping[str, str]) -> str:
    """HERMES_CONFIG_PATH, else home/config.yaml."""
    return environ.get("HERMES_CONFIG_PATH") or os.path.join(home, "config.yaml")


def env_path(home: str, environ: Mapping[str, str]) -> str:
    """HERMES_ENV_PATH, else home/.env."""
    return environ.get("HERMES_ENV_PATH") or os.path.join(home, ".env")


def load(home: str, environ: Mapping[str, str]) -> Loaded:
    """Read home/config.yaml, home/.env and the variables of OVERRIDES. Never raises: faults are in `errors`.

    HERMES_CONFIG_PATH and HERMES_ENV_PATH name other files; HERMES_IGNORE_USER_CONFIG=1 reads no config.yaml.
    """
    path = config_path(home, environ)
    stored = env_path(home, environ)
    notes = Notes(stored)
    secret = Secrets(environ, read_env_file(stored, notes))
    early = tuple(notes.warnings)
    notes = Notes(path)
    ignored = _WORDS.get(environ.get("HERMES_IGNORE_USER_CONFIG", "").lower(), "true") == "true"
    text = None if ignored else read_text(path, notes)
    loaded = load_text(text, path, environ, secret, notes)
    return msgspec.structs.replace(loaded, warnings=early + loaded.warnings)


def read_text(path: str, notes: Notes) -> str | None:
    """The text of the file; None when it is absent, or with an error when it cannot be read."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            notes.error("is not a file")  # A FIFO would make the daemon wait for ever.
            return None
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            notes.error(f"is longer than {MAX_FILE_BYTES:,} bytes")
            return None
        return raw.decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        notes.error(
            f"is not UTF-8: byte 0x{raw[error.start]:02x}", place=(line, error.start - raw.rfind(b"\n", 0, error.start))
        )
        return None
    except OSError as error:
        notes.error(f"cannot be read: {error.strerror}")
        return None


def load_text(text: str | None, path: str, environ: Mapping[str, str], secret: Secrets, notes: Notes) -> Loaded:
    """What `load` makes of a file's text. None stands for no file."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    variables: dict[Key, tuple[str, ...]] = {}
    if text is not None and text.strip():
        from hermes_daemon.config.document import parse
        from hermes_daemon.config.expansion import expand

        document = parse(text, notes)
        if document is not None:
            expanded = expand(document.values, lambda name: environ.get(name, secret(name)), notes)
            values, variables = expanded.values, expanded.variables
            name = os.path.basename(path)
            sources = {dotted(key): f"{name}:{place[0]}" for key, place in document.places.items() if key}
    sources |= _override(values, environ, notes) | otel.overlay(values, environ, notes)
    settings = Settings()
    if values:
        from hermes_daemon.config.decode import decode

        settings = decode(values, notes, variables)
    masked = frozenset(dotted(key) for key, names in variables.items() if any(secret.stored(name) for name in names))
    return Loaded(settings, path, secret, tuple(notes.warnings), tuple(notes.errors), sources, masked)


def _override(values: dict[str, Any], environ: Mapping[str, str], notes: Notes) -> dict[str, str]:
    """Put the variables' values over the file's; (dotted key -> variable) for those that were."""
    sources = {}
    for variable, (key, words) in OVERRIDES.items():
        given = environ.get(variable)
        if given is None:
            continue
        value: Any = int(given) if words is None and given.strip().isdecimal() else given
        if words is not None:
            word = _WORDS.get(given.strip().lower())
            if word is None:
                notes.errors.append(ConfigError(f"expected 1 or 0, got {given[:40]!r}", path=variable))
                continue
            value = words[word]
        elif not isinstance(value, int) or value < 1:
            notes.errors.append(
                ConfigError(f"expected a whole number of at least 1, got {given[:40]!r}", path=variable)
            )
            continue
        if len(key) == 1:
            values[str(key[0])] = value
            sources[dotted(key)] = variable
            continue
        section, name = key
        if value is not msgspec.UNSET and isinstance(values.setdefault(str(section), {}) or {}, dict):
            values[str(section)] = {**(values[str(section)] or {}), name: value}
            sources[dotted(key)] = variable
    if sources.get("approvals.mode"):
        notes.warnings.append("HERMES_YOLO_MODE is set: no session of this daemon asks before a tool runs")
    return sources
