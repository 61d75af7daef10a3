"""Write the reference pages that follow from the daemon's own types. Options as in protocol/generate.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args, get_origin

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "protocol")]

import msgspec  # noqa: E402  (the path above makes a plain checkout enough)

from docs import points_page, telemetry_page  # noqa: E402
from hermes_daemon.config.decode import expectation, struct_in  # noqa: E402
from hermes_daemon.config.loading import OVERRIDES  # noqa: E402
from hermes_daemon.config.problem import dotted  # noqa: E402
from hermes_daemon.core.settings import Section, Settings  # noqa: E402
from protocol.generate import write  # noqa: E402

HEAD = """\
<!-- Generated from hermes_daemon/core/settings.py by `make gen`. Change the types, not this page. -->
# Settings: reference

Every key of config.yaml with what it takes and its default. What the settings are for is told in
[configuration.md](../configuration.md). `hermes config get KEY` shows the value in force and where it comes from.
"""


def setting_keys(struct: type[Section] = Settings, above: str = "") -> dict[str, msgspec.structs.FieldInfo]:
    """{dotted key: field} of every setting that is not itself a section; NAME stands for a name of the user's."""
    keys: dict[str, msgspec.structs.FieldInfo] = {}
    for field in msgspec.structs.fields(struct):
        key = f"{above}{field.encode_name}"
        below = _inner(field.type)
        if below is None:
            keys[key] = field
        elif get_origin(field.type) is dict:
            keys |= setting_keys(below, f"{key}.NAME.")
        elif get_origin(field.type) is tuple:
            keys[key] = field
            keys |= setting_keys(below, f"{key}[].")
        else:
            keys |= setting_keys(below, f"{key}.")
    return keys


def outputs() -> dict[str, str]:
    """{path below the repository: text} of every generated page."""
    lines = [HEAD]
    section = ""
    for key, field in setting_keys().items():
        if key.partition(".")[0] != section:
            section = key.partition(".")[0]
            lines += ["", f"## {section}", "", "| key | takes | default |", "|---|---|---|"]
        lines.append(f"| `{key}` | {expectation(field.type)} | {_default(field)} |")
    lines += ["", "## Environment variables", "", "| variable | wins over |", "|---|---|"]
    lines += [f"| `{variable}` | `{dotted(key)}` |" for variable, (key, _) in OVERRIDES.items()]
    return {
        "docs/reference/config.md": "\n".join(lines) + "\n",
        "docs/reference/points.md": points_page.page(),
        "docs/reference/telemetry.md": telemetry_page.page(),
    }


def _inner(annotation: Any) -> type[Section] | None:
    """The Section inside an annotation: itself, an entry of a list, or the value of a name."""
    if get_origin(annotation) in (dict, tuple):
        return struct_in([each for each in get_args(annotation) if each is not Ellipsis][-1])
    return struct_in(annotation)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{json.dumps(default)}`" if default not in ("", None) else ""


if __name__ == "__main__":
    raise SystemExit(write(outputs(), ROOT, sys.argv[1:], __doc__))
