"""What a look at the plugins finds: their folders (links), their settings, and why some were not loaded (load)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from hermes_daemon.core.settings import PluginEntry, PluginsSettings
from hermes_daemon.plugins.config_schema import checked
from hermes_daemon.plugins.discovery import Found
from hermes_protocol.methods import DoctorRow


def rows(
    found: Sequence[Found],
    settings: PluginsSettings,
    faults: Mapping[str, str],
    secret: Callable[[str], str | None],
) -> tuple[DoctorRow, ...]:
    """`found` as `discover` gives it; `faults` say why a plugin could not be loaded."""
    first: dict[str, Found] = {}
    for each in found:
        first.setdefault(each.id, each)
    enabled = [id for id in dict.fromkeys(settings.enabled) if id not in settings.disabled]
    links = [_link(each, settings) for each in found]
    links += [_missing(id) for id in enabled if id not in first]
    usable = [first[id] for id in enabled if id in first and _usable(first[id])]
    checks = [row for each in usable for row in _settings(each, settings, secret)]
    told = {row.plugin for row in (*links, *checks) if row.severity == "fail"}
    loads = [DoctorRow("load", id, "fail", text) for id, text in faults.items()
             if id not in told and not (id in first and first[id].manifest.retired)]  # fmt: skip
    return (*links, *checks, *loads)


def _usable(found: Found) -> bool:
    return not found.fault and not found.manifest.retired


def _link(found: Found, settings: PluginsSettings) -> DoctorRow:
    """Whether an entry below a place for plugins leads to a plugin."""
    where = found.folder or found.entry
    if found.manifest.retired:
        left = found.id in settings.enabled or found.id in settings.entries or found.source != "bundled"
        return DoctorRow("links", found.id, "warn" if left else "ok", f"retired: {found.manifest.retired}")
    if found.fault:
        return DoctorRow("links", found.id, "fail", found.fault)
    return DoctorRow("links", found.id, "ok", where)


def _missing(id: str) -> DoctorRow:
    return DoctorRow("links", id, "fail", f"plugins.enabled names {id!r}, and no folder or package is that plugin")


def _settings(found: Found, settings: PluginsSettings, secret: Callable[[str], str | None]) -> Iterator[DoctorRow]:
    """The settings of an enabled plugin against its manifest. A key that is not given and has a default is not
    missing: the manifest gives it."""
    given = settings.entries.get(found.id, PluginEntry()).settings
    schema = found.manifest.config_schema
    values, problems = checked(schema, given, secret)
    for problem in problems:
        yield DoctorRow("settings", found.id, problem.severity, f"settings{problem.path[1:]}: {problem.message}")
    missing = [key for key, field in schema.items() if key not in values and key not in given and not field.required]
    for key in missing:
        yield DoctorRow("settings", found.id, "warn", f"settings.{key}: is not set, and has no default")
    if not problems and not missing:
        yield DoctorRow("settings", found.id, "ok", f"{len(given)} of {len(schema)} settings are given")
