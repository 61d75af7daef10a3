"""The text of a config.yaml as plain values, with the line and column of every key. Imports yaml: import it late.

Plain scalars follow YAML 1.2: only `true` and `false` are booleans, so `mode: off` stays the word it is; dates and
base-60 numbers stay text.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import msgspec
import yaml

from hermes_daemon.config.problem import Key, Notes, Place

MAX_NODES = 50_000  # Aliases can make a small file stand for billions of values.

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    yaml_implicit_resolvers: dict[str, Any] = {}


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:[0-9][0-9_]*|0x[0-9a-fA-F]+)", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*\.[0-9]*|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|nan)",
     list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):  # fmt: skip
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})\\Z"), _first)


class Document(msgspec.Struct, frozen=True):
    """`values` is the top-level mapping; `places` has (line, column), 1-based, of every key in it."""

    values: dict[str, Any]
    places: dict[Key, Place]


def parse(text: str, notes: Notes) -> Document | None:
    """The document, or None with the reason in `notes.errors`. Duplicate keys warn; the last one counts."""
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        notes.error(_sentence(error, text), place=_error_place(error, text))
        return None
    reader = _Reader(notes)
    notes.places = reader.places
    try:
        values = {} if root is None else reader.read(root, ())
    except yaml.constructor.ConstructorError as error:
        notes.error(error.problem or "cannot be read", place=_mark(error.problem_mark))
        return None
    if values is None:
        values = {}
    if not isinstance(values, dict):
        notes.error("expected sections such as `model:` at the top of the file", place=_mark(root.start_mark))
        return None
    return Document(values, reader.places)


class _Reader:
    """Nodes to values. Constructs by hand, because a constructor of yaml forgets where things stood."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.places: dict[Key, Place] = {}
        self._open: set[int] = set()
        self._left = MAX_NODES
        self._scalars = _Loader("")

    def read(self, node: Any, key: Key) -> Any:
        self._left -= 1
        if self._left < 0:
            self._fail(f"expands to more than {MAX_NODES:,} values", node)
        self.places.setdefault(key, _mark(node.start_mark))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            self._fail("an alias that contains itself", node)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.read(item, (*key, index)) for index, item in enumerate(node.value)]
            return self._mapping(node, key)
        finally:
            self._open.discard(id(node))

    def _scalar(self, node: Any) -> Any:
        try:
            return self._scalars.construct_object(node)
        except ValueError as error:  # An int of thousands of digits, or a tag that does not fit its text.
            self._fail(f"{node.value[:40]!r} cannot be read as {node.tag.rpartition(':')[2]}: {error}", node)

    def _mapping(self, node: Any, key: Key) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for name_node, value_node in node.value:
            if name_node.tag == "tag:yaml.org,2002:merge":
                for each in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                    below = self.read(each, (*key, "<<"))
                    if not isinstance(below, dict):
                        self._fail("expected a mapping after `<<`", each)
                    merged = {**below, **merged}
                continue
            if not isinstance(name_node, yaml.ScalarNode):
                self._fail("expected a plain name as key", name_node)
            name = str(name_node.value)
            here = (*key, name)
            if name in values:
                first = self.places[here]
                self.places[here] = _mark(name_node.start_mark)
                self.notes.warn(f"given twice; this one counts, the one in line {first[0]} does not", here)
            self.places[here] = _mark(name_node.start_mark)
            values[name] = self.read(value_node, here)
        return {**merged, **values}

    def _fail(self, problem: str, node: Any) -> NoReturn:
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _mark(mark: Any) -> Place:
    return (mark.line + 1, mark.column + 1)


def _error_place(error: yaml.YAMLError, text: str) -> Place | None:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return _mark(error.problem_mark)
    if isinstance(error, yaml.reader.ReaderError) and isinstance(error.position, int):
        before = text[: error.position]
        return (before.count("\n") + 1, len(before) - before.rfind("\n"))
    return None


def _sentence(error: yaml.YAMLError, text: str) -> str:
    """The library's words, and for the commonest slips what to do."""
    place = _error_place(error, text)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    context = getattr(error, "context", None)
    words = f"{problem} {context}" if context else problem
    if place is not None:
        lines = text.splitlines()
        line = lines[place[0] - 1] if place[0] <= len(lines) else ""
        if "\t" in line[: len(line) - len(line.lstrip())]:
            return f"a tab indents this line; YAML is indented with spaces ({problem})"
        if "mapping values are not allowed" in problem:
            return 'unexpected ": ": check the indentation, and put quotes around a value with a colon in it'
        if "block mapping" in words or "block collection" in words:
            return f"this line does not line up with its neighbours: check the indentation ({problem})"
    if "flow" in words:
        return f"a bracket before this place is not closed, or a value is missing: expected , ] or }} ({problem})"
    return words
