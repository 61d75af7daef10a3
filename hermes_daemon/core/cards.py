"""A ToolCard from a typed async function: the signature gives the schema, the docstring the words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_type_hints

import msgspec

from hermes_daemon.core.ports import ToolCard

Kind: TypeAlias = Literal["read", "edit", "search", "execute", "fetch", "think", "other"]

_TEMPLATE = "#/$defs/{name}"


def card_of(
    function: Callable[..., Any],
    *,
    toolset: str,
    kind: Kind = "other",
    read_only: bool = False,
    paths: tuple[str, ...] = (),
    name: str | None = None,
) -> ToolCard:
    """The card of `async def tool(ctx, a: T, b: U = default) -> ToolOutcome`.

    The first parameter is the context and no argument. Every other one needs a type that JSON can carry; limits and
    words come from `Annotated[T, msgspec.Meta(...)]`. The docstring is the description, up to a line `Args:`; the
    lines `name: words` below it describe arguments. Arguments without a default are required, others are refused.
    TypeError names the function and the parameter that cannot become a schema.
    """
    where = name or function.__name__
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    description, words = _docstring(function)
    for parameter in parameters:
        if parameter.name not in hints:
            raise TypeError(f"{where}: parameter {parameter.name!r} has no type")
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{where}: parameter {parameter.name!r} must be an ordinary named parameter")
    unknown = (set(words) | set(paths)) - {parameter.name for parameter in parameters}
    if unknown:
        raise TypeError(f"{where}: {', '.join(sorted(unknown))} described or listed as path, but not a parameter")
    try:
        schemas, definitions = msgspec.json.schema_components(
            [hints[parameter.name] for parameter in parameters], ref_template=_TEMPLATE
        )
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from error
    properties: dict[str, Any] = {}
    for parameter, schema in zip(parameters, schemas, strict=True):
        entry = dict(schema)
        if parameter.name in words:
            entry["description"] = words[parameter.name]
        if parameter.default is not parameter.empty and parameter.default is not None:
            entry["default"] = msgspec.to_builtins(parameter.default)
        properties[parameter.name] = entry
    schema = {
        "type": "object",
        "properties": properties,
        "required": [parameter.name for parameter in parameters if parameter.default is parameter.empty],
        "additionalProperties": False,
    }
    if definitions:
        schema["$defs"] = definitions
    return ToolCard(where, toolset, description, schema, read_only=read_only, kind=kind, paths=paths)


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """(description, words of each argument). A continuation line is indented deeper than the names."""
    text = inspect.getdoc(function) or ""
    description, _, rest = text.partition("\nArgs:\n")
    words: dict[str, str] = {}
    current = ""
    indent: int | None = None
    for line in rest.splitlines():
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        if depth <= indent:
            current, _, first = line.strip().partition(":")
            words[current] = first.strip()
        else:
            words[current] += f" {line.strip()}"
    return description.strip(), words
