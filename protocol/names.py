"""Tables of the wire's names for editors whose languages have no types: protocol/schema/names.lua and names.el."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_protocol import PROTOCOL_VERSION
from hermes_protocol.errors import CODES
from hermes_protocol.schema import wire


def lua() -> str:
    """A module: {version, methods, kinds, codes}."""
    methods, kinds = _names()
    return "\n".join([
        "-- Generated from hermes_protocol by `make gen`: names and codes of the wire.",
        "return {",
        f'  version = "{PROTOCOL_VERSION}",',
        "  methods = {", *(f'    ["{name}"] = true,' for name in methods), "  },",
        "  kinds = {", *(f'    ["{kind}"] = true,' for kind in kinds), "  },",
        "  codes = {", *(f"    {kind} = {code}," for kind, code in CODES.items()), "  },",
        "}",
    ]) + "\n"  # fmt: skip


def elisp() -> str:
    """A feature `hermes-names` with four constants."""
    methods, kinds = _names()
    return "\n".join([
        ";;; names.el --- names and codes of the hermes protocol  -*- lexical-binding: t; -*-",
        "",
        ";; Generated from hermes_protocol by `make gen`.",
        "",
        ";;; Code:",
        "",
        f'(defconst hermes-names-version "{PROTOCOL_VERSION}" "The protocol\'s version.")',
        "",
        *_constant("methods", "Every request of a client.", (f'"{name}"' for name in methods)),
        *_constant("kinds", "Every kind of hermes/event.", (f'"{kind}"' for kind in kinds)),
        *_constant("codes", "The kinds of errors and their codes.", (f"({k} . {v})" for k, v in CODES.items())),
        "(provide 'hermes-names)",
        ";;; names.el ends here",
    ]) + "\n"  # fmt: skip


def _names() -> tuple[list[str], list[str]]:
    """Stable methods and kinds, in order of the alphabet."""
    tables = wire().stable()
    return sorted(tables.requests), sorted(tables.kinds)


def _constant(name: str, sentence: str, entries: Iterable[str]) -> list[str]:
    return [f"(defconst hermes-names-{name}", "  '(" + "\n    ".join(entries) + ")", f'  "{sentence}")', ""]
