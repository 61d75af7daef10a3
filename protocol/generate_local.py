"""Writes hermes_local/names.py from the protocol's types; `--check` only compares. Run by `make gen`."""

from __future__ import annotations

import sys
from pathlib import Path

from hermes_protocol.errors import CODES
from hermes_protocol.events import KINDS
from hermes_protocol.methods import DAEMON_NOTIFICATIONS, METHODS, NOTIFICATIONS

TARGET = Path(__file__).parent / "hermes_local" / "names.py"


def source() -> str:
    """The text of names.py."""
    lines = ['"""Names and codes of the wire, generated from hermes_protocol by generate_local.py: do not edit."""', ""]
    for name, values in (
        ("METHODS", METHODS),
        ("NOTIFICATIONS", {**NOTIFICATIONS, **DAEMON_NOTIFICATIONS, "hermes/event": None}),
        ("EVENT_KINDS", KINDS),
    ):
        lines += [f"{name} = frozenset(", "    {", *(f'        "{value}",' for value in sorted(values)), "    }", ")"]
    lines += ["CODES = {", *(f'    "{kind}": {code},' for kind, code in CODES.items()), "}"]
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> int:
    """Write the file, or with --check say whether it is as it should be."""
    if "--check" not in argv:
        TARGET.write_text(source())
        return 0
    if TARGET.read_text() == source():
        return 0
    print(f"{TARGET.name} is not what hermes_protocol says: run `make gen`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
