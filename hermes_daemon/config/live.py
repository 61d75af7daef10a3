"""The configuration of a running daemon: it can be read again, and changed, and never gets worse by either."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from hermes_daemon.config.loading import Loaded, config_path, env_path, load
from hermes_daemon.config.problem import ConfigError, Key, dotted, nearest, parse_key
from hermes_daemon.core.ports import Refused, Reload
from hermes_daemon.core.settings import Settings

_TELLING = re.compile(r"(?i)auth|key|token|secret|password|cookie|sig")
MASK = "[from .env]"
_GUARDING = frozenset({"", "approvals", "tools", "terminal", "security", "providers", "model"})


class Configuration:
    """`current` is always whole: the settings of the last reading without errors.

    When already the first reading has errors, `current` holds the defaults in place of the faulty values, and
    `errors` says so; whoever starts a daemon decides whether to go on.
    """

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        self.home, self.environ = home, environ
        self._seen = self._files()
        self._loaded = load(home, environ)
        self._errors = self._loaded.errors
        self._whole = not self._errors

    @property
    def current(self) -> Settings:
        """The settings in force."""
        return self._loaded.settings

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        """The faults of the last reading."""
        return self._errors

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the last good reading had to say."""
        return self._loaded.warnings

    @property
    def fault(self) -> str:
        """Why nothing may be sent to a model or run by these settings; "" when it may.

        After a good reading the settings in force are always good ones. Before the first, a default may stand where
        the file forbids something or names whom to talk to, and so nothing is done until it is mended.
        """
        if self._whole:
            return ""
        for error in self._errors:
            section = error.key.partition(".")[0].partition("[")[0]
            if error.path == self.path and section in _GUARDING:
                unknown = "No turn starts while it is not known what the configuration forbids"
                return f"{unknown}: {error}. Mend it and send again."
        return ""

    @property
    def path(self) -> str:
        """The config.yaml that is read and written, whether it exists or not."""
        return self._loaded.path

    def secret(self, name: str) -> str | None:
        """A credential by its variable's name: the environment first, then home/.env."""
        return self._loaded.secret(name)

    def secret_values(self) -> frozenset[str]:
        """Every credential in use: all of home/.env, and what configured providers send: keys, headers, parameters,
        and the headers that the export of telemetry sends."""
        values = set(self._loaded.secret.values()) | set(self.current.telemetry.otel.headers.values())
        for provider in self.current.providers.values():
            values |= {self.secret(source) or "" for source in provider.key_sources}
            values |= {text for name, text in provider.headers.items() if _TELLING.search(name)}
            query = parse_qsl(urlsplit(provider.base_url).query) if "?" in provider.base_url else []
            values |= {text for name, text in (*query, *provider.query.items()) if _TELLING.search(name)}
        # Behind a scheme ("Bearer ...") the secret is the last word.
        return frozenset(word for value in values for word in (value, value.rpartition(" ")[2]) if word)

    def reload(self) -> Reload:
        """Read everything again. A reading with errors leaves `current` and the credentials as they are."""
        self._seen = self._files()
        loaded = load(self.home, self.environ)
        self._errors = loaded.errors
        if loaded.errors:
            return Reload(errors=loaded.errors, warnings=loaded.warnings)
        self._whole = True
        changed = differing(self._loaded, loaded)
        self._loaded = loaded
        return Reload(changed, warnings=loaded.warnings)

    def freshen(self) -> Reload | None:
        """`reload` when a file was changed since the last reading, else None. Costs two calls of stat."""
        return self.reload() if self._files() != self._seen else None

    def _files(self) -> tuple[tuple[int, ...] | None, ...]:
        """What tells the files of now from those of before; taken before they are read."""
        return tuple(_signature(find(self.home, self.environ)) for find in (config_path, env_path))

    def get(self, path: str = "") -> tuple[Any, str]:
        """(value as JSON-able data, source) of a dotted key; the whole tree for "". Values from home/.env are masked.

        The source is `config.yaml:LINE`, the name of a variable, or `default`. Refused names the nearest key.
        """
        return look_up(self._loaded, path)

    @property
    def secrets_path(self) -> str:
        """The .env that is read and written, whether it exists or not."""
        return env_path(self.home, self.environ)

    def stored(self, name: str) -> bool:
        """Whether the credential in use comes from home/.env."""
        return self._loaded.secret.stored(name)

    def put_secret(self, name: str, value: str | None) -> Reload:
        """Write one credential into home/.env, keeping its other lines, and read it again. See `env_edit`."""
        from hermes_daemon.config.env_edit import put_secret

        put_secret(self.secrets_path, name, value)
        return self.reload()

    def set(self, path: str, value: Any) -> Reload:
        """Write one value into config.yaml, keeping comments, and read it again. See `edit.change`; Refused when the
        result would not be a valid configuration, with nothing written."""
        from hermes_daemon.config.edit import change

        change(self.path, parse_path(path), value, self.environ, self._loaded.secret)
        return self.reload()


def parse_path(path: str) -> Key:
    """The key of a dotted path; Refused when it is none."""
    try:
        return parse_key(path)
    except ValueError as error:
        raise Refused(f"{error}.", "Keys look like agent.max_rounds.", kind="invalid_params") from None


def look_up(loaded: Loaded, path: str) -> tuple[Any, str]:
    """`Configuration.get` of one reading."""
    key = parse_path(path)
    value: Any = tree(loaded.settings)
    for index, part in enumerate(key):
        within = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if within or (isinstance(value, dict) and part in value):
            value = value[part]
        else:
            known = [str(name) for name in value] if isinstance(value, dict) else []
            hint = nearest(str(part), known).strip(" ()").capitalize()
            where = f" in {dotted(key[:index])}" if index else ""
            raise Refused(f"There is no setting `{part}`{where}.", hint, kind="invalid_params")
    return _masked(value, key, loaded.masked), _source(dotted(key), loaded.sources)


def _signature(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def differing(old: Loaded, new: Loaded) -> tuple[str, ...]:
    """The dotted keys whose values differ, in the order of the settings."""
    before, after = _leaves(tree(old.settings), ()), _leaves(tree(new.settings), ())
    return tuple(dotted(key) for key in {**before, **after} if before.get(key) != after.get(key))


def tree(settings: Any) -> Any:
    """Settings with every default written out, as plain data."""
    if isinstance(settings, msgspec.Struct):
        return {
            field.encode_name: tree(getattr(settings, field.name)) for field in msgspec.structs.fields(type(settings))
        }
    if isinstance(settings, dict):
        return {name: tree(value) for name, value in settings.items()}
    if isinstance(settings, tuple):
        return [tree(value) for value in settings]
    return settings


def _leaves(value: Any, key: Key) -> dict[Key, Any]:
    if not isinstance(value, dict) or not value:
        return {key: value}
    return {path: leaf for name, below in value.items() for path, leaf in _leaves(below, (*key, name)).items()}


def _source(name: str, sources: Mapping[str, str]) -> str:
    if name in sources:
        return sources[name]
    below = {source for key, source in sources.items() if not name or key.startswith((f"{name}.", f"{name}["))}
    return ", ".join(sorted(below)) if name and below else ("default" if not below else "several")


def _masked(value: Any, key: Key, masked: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _masked(below, (*key, name), masked) for name, below in value.items()}
    if isinstance(value, list):
        return [_masked(below, (*key, index), masked) for index, below in enumerate(value)]
    return MASK if dotted(key) in masked else value
