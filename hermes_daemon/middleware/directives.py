"""What a policy link may want, and which of several wishes wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

_RANK = {"block": 0, "approve": 1, "continue": 2, "modify": 3}


class Directive(msgspec.Struct, frozen=True):
    """What a decide link wants: block the operation, ask people first, go another round, or change fields.

    `message` is told to the model (block, continue) or to people (approve). `rule_key` names what a lasting consent
    covers. `revalidate(final)` is asked after consent, with the final arguments, and must give exactly True.
    """

    action: Literal["block", "approve", "continue", "modify"]
    message: str = ""
    fields: dict[str, Any] = {}
    rule_key: str = ""
    revalidate: Callable[[dict[str, Any]], object] | None = None
    owner: str = ""
    id: str = ""


class Receipt(msgspec.Struct, frozen=True):
    """What became of one directive."""

    directive_id: str
    owner: str
    action: str
    delivered: bool


class Decision(msgspec.Struct, frozen=True):
    """All wishes settled: `action` is the strictest ("modify" when only fields change), `fields` all changes merged."""

    action: Literal["block", "approve", "continue", "modify"]
    message: str
    fields: dict[str, Any]
    owner: str
    rule_key: str = ""
    revalidate: tuple[Callable[[dict[str, Any]], object], ...] = ()
    receipts: tuple[Receipt, ...] = ()


def settled(wanted: Sequence[Directive]) -> Decision | None:
    """block before approve before continue, whatever the order; the first of a rank speaks. None for no wishes."""
    if not wanted:
        return None
    winner = min(wanted, key=lambda each: _RANK[each.action])
    fields: dict[str, Any] = {}
    for each in wanted:
        if each.action == "modify":
            fields |= each.fields
    changes = winner.action != "block"
    receipts = tuple(
        Receipt(each.id, each.owner, each.action, each is winner or (each.action == "modify" and changes))
        for each in wanted
    )
    checks = tuple(each.revalidate for each in wanted if each.revalidate is not None and each.action == "approve")
    return Decision(
        winner.action, winner.message, fields if changes else {}, winner.owner, winner.rule_key, checks, receipts
    )
