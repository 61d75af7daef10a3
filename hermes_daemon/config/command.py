"""`hermes-daemon config get|set|unset|path|validate`: the configuration from a shell, with or without a daemon."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from hermes_daemon.config.edit import annotation, from_words
from hermes_daemon.config.live import Configuration, parse_path
from hermes_daemon.core.ports import Refused
from hermes_local.address import AddressError, resolve

USAGE = """\
usage: hermes-daemon config get [KEY] [--json]   the value in force and where it comes from; all of them without KEY
       hermes-daemon config set KEY VALUE        write it to config.yaml, comments kept
       hermes-daemon config unset KEY            back to the default
       hermes-daemon config path                 the file
       hermes-daemon config validate             everything that is wrong with it

KEY looks like agent.max_rounds. Exit code: 0 done, 1 the configuration is at fault, 2 usage.
"""


def main(argv: Sequence[str], environ: Mapping[str, str] | None = None, out: TextIO | None = None) -> int:
    """Run one command; see USAGE. The configuration is the one of HERMES_HOME and HERMES_PROFILE in `environ`."""
    out = out or sys.stdout
    environ = os.environ if environ is None else environ
    words = [word for word in argv if word != "--json"]
    counts = {"get": (1, 2), "set": (3,), "unset": (2,), "path": (1,), "validate": (1,)}
    if not words or words[0] in ("-h", "--help", "help"):
        out.write(USAGE)
        return 0 if words else 2
    if len(words) not in counts.get(words[0], ()):
        print(USAGE, end="", file=sys.stderr)
        return 2
    try:
        configuration = Configuration(resolve(environ).home, environ)
        return _run(words, "--json" in argv, configuration, out)
    except (Refused, AddressError) as error:
        print(f"hermes-daemon config: {error}", file=sys.stderr)
        return 1


def _run(words: list[str], as_json: bool, configuration: Configuration, out: TextIO) -> int:
    if words[0] == "path":
        print(configuration.path, file=out)
        return 0
    if words[0] == "validate":
        return _validate(configuration, out)
    if words[0] == "get":
        value, source = configuration.get(words[1] if len(words) > 1 else "")
        print(json.dumps({"value": value, "source": source}) if as_json else _text(value), file=out)
        _say(configuration.errors)
        return 1 if configuration.errors else 0
    key = parse_path(words[1])
    annotation(key)
    value = from_words(key, words[2]) if words[0] == "set" else None
    result = configuration.set(words[1], value)
    _say(result.warnings)
    for name in result.changed:
        print(f"{name} = {_text(configuration.get(name)[0])}", file=out)
    _, source = configuration.get(words[1])
    if source.isupper():
        print(f"{configuration.path} is written, but {source} is set and wins", file=sys.stderr)
    return 0


def _validate(configuration: Configuration, out: TextIO) -> int:
    _say(configuration.warnings, "warning: ")
    _say(configuration.errors, "error: ")
    if configuration.errors:
        return 1
    state = "is valid" if os.path.exists(configuration.path) else "does not exist; the defaults apply"
    print(f"{configuration.path} {state}", file=out)
    return 0


def _say(lines: Sequence[object], lead: str = "") -> None:
    for line in lines:
        print(f"{lead}{line}", file=sys.stderr)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        import yaml

        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120).rstrip("\n") or "{}"
    return json.dumps(value)
