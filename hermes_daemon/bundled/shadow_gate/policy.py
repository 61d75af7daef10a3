"""What an operator demands of a decision before it counts as qualified."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from hermes_daemon.api import Refused

NAME: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
MOST_NAME_CHARS: Final = 200
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Labels = Annotated[tuple[Annotated[str, msgspec.Meta(min_length=1)], ...], msgspec.Meta(min_length=1)]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict (an outcome) is positive when it is among the positive ones. Shares lie in [0, 1]."""

    min_pairs: Annotated[int, msgspec.Meta(ge=1)]
    min_agreement: Share
    max_false_positive: Share
    positive_verdicts: Labels
    positive_outcomes: Labels


def valid_name(name: object) -> bool:
    """True for the name of a decision, which is a file's name as well: words of a-z, 0-9 and _ joined by dots."""
    return isinstance(name, str) and len(name) <= MOST_NAME_CHARS and NAME.fullmatch(name) is not None


def policies(decisions: Mapping[str, Any]) -> dict[str, Policy]:
    """The policies of the setting `decisions`. Refused for a name or a field that does not fit, naming it."""
    found = {}
    for name, fields in decisions.items():
        if not valid_name(name):
            raise Refused(f"settings.decisions: expected names such as area.decision, got {name!r}")
        try:
            found[name] = msgspec.convert(fields, Policy)
        except msgspec.ValidationError as error:
            words = str(error).partition(" - at `$")
            place = words[2].rstrip("`")
            raise Refused(f"settings.decisions.{name}{place}: {words[0]}") from None
    return found
