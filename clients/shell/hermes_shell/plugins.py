"""`hermes plugins`: what is there, what runs, and the settings of each."""

from __future__ import annotations

import json
import sys
from typing import Any

from hermes_local.address import Address
from hermes_local.spawn import EXIT_REFUSED, connect_or_start
from hermes_shell.config import run_daemon_command
from hermes_shell.failures import Failed
from hermes_shell.table import paint, print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_local.connection import Connection

Given = dict[str, Any]
NAME = "hermes plugins"
REQUEST_S = 120.0  # a reload may wait for plugins that take long to load
COLOURS = {"loaded": "ok", "failed": "fail", "enabled": "warn", "retired": "dim", "disabled": "dim"}


def show_list(given: Given, address: Address) -> int:
    """Every plugin that was found."""
    with connect_or_start(address, NAME) as connection:
        rows = _rows(connection)
    if given["json"]:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    if not rows:
        print(f"no plugins; `hermes plugins new NAME` makes one in {address.home}/plugins")
        return 0
    table = [(row["id"], row["version"], row["source"], row["state"], _about(row)) for row in rows]
    print_table(("PLUGIN", "VERSION", "FROM", "STATE", "ABOUT"), table)
    return 0


def show(given: Given, address: Address) -> int:
    """One plugin: what it is, what it brought, its settings, and what is wrong with it."""
    with connect_or_start(address, NAME) as connection:
        row = _named(_rows(connection), given["id"])
    if given["json"]:
        print(json.dumps(row, indent=2, ensure_ascii=False))
        return 0
    print(f"{row['id']} {row['version']}  {paint(row['state'], COLOURS.get(row['state'], 'dim'))}")
    for name, key in (("about", "description"), ("why", "detail"), ("from", "source")):
        if row.get(key):
            print(f"  {name:9} {row[key]}")
    for name in ("tools", "points", "commands"):
        if row.get(name):
            print(f"  {name:9} {', '.join(row[name])}")
    for setting in row.get("settings", ()):
        where = "" if setting.get("given") else "  (default)"
        print(f"  {'setting':9} {setting['key']} = {_shown(setting.get('value'))}{where}")
    for problem in row.get("problems", ()):
        print(f"  {paint('problem', 'warn'):9} {problem}")
    return 0


def enable(given: Given, address: Address) -> int:
    """Put it into plugins.enabled, and load it."""
    return _switch(given["id"], address, on=True)


def disable(given: Given, address: Address) -> int:
    """Take it out of plugins.enabled, and unload it."""
    return _switch(given["id"], address, on=False)


def _switch(id: str, address: Address, *, on: bool) -> int:
    with connect_or_start(address, NAME) as connection:
        row = _named(_rows(connection), id)
        if on and row["state"] == "retired":
            raise Failed(f"{id} cannot be enabled: it is retired: {row.get('detail', '')}", EXIT_REFUSED)
        enabled, disabled = (_setting(connection, f"plugins.{name}") for name in ("enabled", "disabled"))
        if on:
            _set(connection, "plugins.disabled", disabled, [each for each in disabled if each != id])
            _set(connection, "plugins.enabled", enabled, enabled if id in enabled else [*enabled, id])
        else:
            _set(connection, "plugins.enabled", enabled, [each for each in enabled if each != id])
            if id not in enabled and row["state"] != "disabled":  # a bundled one that runs without being enabled
                _set(connection, "plugins.disabled", disabled, [*disabled, id])
        _reload(connection, [id])
        row = _named(_rows(connection), id)
    return _state_of(row)


def _state_of(row: Given) -> int:
    """Say how a plugin stands; the exit code."""
    if row["state"] == "failed":
        raise Failed(f"{row['id']} is enabled and cannot be loaded: {row.get('detail', '')}")
    if row["state"] == "enabled":
        print(f"{row['id']} is enabled; in safe mode nothing is loaded")
        return 0
    brought = [f"{name} {', '.join(row[name])}" for name in ("tools", "points", "commands") if row.get(name)]
    print(f"{row['id']} is {row['state']}" + (f": {'; '.join(brought)}" if brought else ""))
    for problem in row.get("problems", ()):
        print(f"warning: {problem}", file=sys.stderr)
    return 0


def reload(given: Given, address: Address) -> int:
    """Load all plugins again, or one with those that need it: changed files are read."""
    ids = [given["id"]] if given["id"] else []
    with connect_or_start(address, NAME) as connection:
        if ids:
            _named(_rows(connection), ids[0])
        found = _reload(connection, ids)
    for text in found.get("errors", ()):
        print(f"problem: {text}", file=sys.stderr)
    loaded = [text.removeprefix("plugin ") for text in found.get("changed", ())]
    print("loaded: " + (", ".join(loaded) or "none"))
    return 1 if any(text.startswith("plugin ") for text in found.get("errors", ())) else 0


def config(given: Given, address: Address) -> int:
    """The settings of a plugin, one of them, or a new value for it; the plugin is loaded again."""
    id, key, value = given["id"], given["key"], given["value"]
    with connect_or_start(address, NAME) as connection:
        row = _named(_rows(connection), id)
        settings = row.get("settings", [])
        if key is None:
            if not settings:
                print(f"{id} has no settings")
                return 0
            table = [
                (each["key"], each["type"], _shown(each.get("value")), "" if each.get("given") else "default",
                 each.get("description", ""))
                for each in settings
            ]  # fmt: skip
            print_table(("SETTING", "TYPE", "VALUE", "", "ABOUT"), table)
            return 0
        setting = _setting_named(id, settings, key)
        if value is None and not given["unset"]:
            print(_shown(setting.get("value")))
            return 0
        new = None if given["unset"] else _value(setting, value)
        path = f"plugins.entries.{id}.settings.{key}"
        connection.request("hermes/config/set", {"path": path, "value": new}, REQUEST_S)
        row = _named(_rows(connection), id)
        wrong = [text for text in row.get("problems", ()) if f".settings.{key}:" in text]
        if wrong:
            before = setting.get("value") if setting.get("given") else None
            connection.request("hermes/config/set", {"path": path, "value": before}, REQUEST_S)
            raise Failed(f"not changed: {'; '.join(wrong)}", EXIT_REFUSED)
        if row["state"] in ("loaded", "failed"):
            _reload(connection, [id])
            row = _named(_rows(connection), id)
    print(f"{key} = {_shown(_setting_named(id, row['settings'], key).get('value'))}")
    return 0


def validate(given: Given, address: Address) -> int:
    """Look at a plugin's folder without a daemon."""
    return run_daemon_command(address, "plugins", "validate", given["path"], *(("--run",) if given["run"] else ()))


# --- inside -----------------------------------------------------------------------------------------------------------


def _rows(connection: Connection) -> list[Given]:
    rows: list[Given] = connection.request("hermes/plugin/list", {}, REQUEST_S)["plugins"]
    return rows


def _named(rows: Sequence[Given], id: str) -> Given:
    for row in rows:
        if row["id"] == id:
            return row
    raise Failed(f"no plugin {id!r}{_near(id, [row['id'] for row in rows])}; `hermes plugins list`", EXIT_REFUSED)


def _setting_named(id: str, settings: Sequence[Given], key: str) -> Given:
    for each in settings:
        if each["key"] == key:
            return each
    keys = [each["key"] for each in settings]
    raise Failed(f"{id} has no setting {key!r}{_near(key, keys)}; it has: {', '.join(keys) or 'none'}", EXIT_REFUSED)


def _near(name: str, known: Sequence[str]) -> str:
    import difflib

    found = difflib.get_close_matches(name, known, 1)
    return f", did you mean {found[0]!r}?" if found else ""


def _setting(connection: Connection, path: str) -> list[str]:
    return list(connection.request("hermes/config/get", {"path": path}, REQUEST_S)["value"] or ())


def _set(connection: Connection, path: str, before: list[str], value: list[str]) -> None:
    if value != before:
        connection.request("hermes/config/set", {"path": path, "value": value}, REQUEST_S)


def _reload(connection: Connection, ids: Sequence[str]) -> Given:
    params = {"what": ["plugins"], "plugins": list(ids)}
    found: Given = connection.request("hermes/daemon/reload", params, REQUEST_S)
    return found


def _about(row: Given) -> str:
    if row["state"] in ("failed", "retired"):
        return str(row.get("detail", ""))
    problems = row.get("problems", ())
    return f"{row.get('description', '')}{f'  ({len(problems)} problems)' if problems else ''}".strip()


def _value(setting: Given, text: str) -> Any:
    """What a word of the command line is for a setting of this type. A text stays a text, also `5` and `true`."""
    if setting["type"] in ("string", "str", "secret"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text  # the daemon says what was expected


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
