"""The service `shadow_gate`: producers add rows, everybody may ask what they amount to. Nothing is ever applied."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

from .ledger import InvalidRow, Ledgers, LedgerUnavailable
from .pairing import measured, paired, shortcomings
from .policy import Policy, valid_name

SHOWN_UNPAIRED: Final = 20


class ShadowGate:
    """Used from any thread. `append_verdict` and `append_outcome` never raise: they tell whether the row is kept, and
    what is not kept is counted as ledger_unavailable and said in the log once for each decision."""

    def __init__(self, ledgers: Ledgers, policies: Mapping[str, Policy], log: logging.Logger) -> None:
        self.ledgers = ledgers
        self._policies = dict(policies)
        self._log = log
        self._lock = threading.Lock()
        self._lost: dict[str, int] = {}

    def append_verdict(self, decision: str, key: str, verdict: str, meta: Mapping[str, Any] | None = None) -> bool:
        """What was decided for `key`, as one word; True when it is kept. A few file operations: not for an event
        loop that must not wait."""
        try:
            self.ledgers.append_verdict(decision, key, verdict, meta)
        except (LedgerUnavailable, InvalidRow) as error:
            self._lose(decision, error)
            return False
        return True

    def append_outcome(self, decision: str, key: str, outcome: str, meta: Mapping[str, Any] | None = None) -> bool:
        """What came of it, as one word; True when it is kept."""
        try:
            self.ledgers.append_outcome(decision, key, outcome, meta)
        except (LedgerUnavailable, InvalidRow) as error:
            self._lose(decision, error)
            return False
        return True

    def report(self, decision: str) -> dict[str, Any]:
        """What the rows of a decision amount to, as JSON. Raises InvalidRow for a name that is none and
        LedgerUnavailable."""
        read = self.ledgers.read(decision)
        policy = self._policies.get(decision)
        found = paired(read.rows)
        figures = measured(found.pairs, policy)
        reasons = shortcomings(figures, policy)
        return {
            "decision": decision,
            "status": "NOT_QUALIFIED" if reasons else "QUALIFIED",
            "reasons": list(reasons),
            "pairs": figures.pairs,
            "agreement": figures.agreement,
            "false_positive": figures.false_positive,
            "unpaired": {
                "verdicts": sum(row.kind == "verdict" for row in found.unpaired),
                "outcomes": sum(row.kind == "outcome" for row in found.unpaired),
                "newest": [
                    {"kind": row.kind, "key": row.key, row.kind: row.value, "at": row.at}
                    for row in found.unpaired[-SHOWN_UNPAIRED:]
                ],
            },
            "rows": len(read.rows),
            "corrupt": read.corrupt,
            "ledger_unavailable": self._lost.get(decision, 0),
        }

    def reports(self) -> tuple[list[dict[str, Any]], list[str]]:
        """(the reports of all decisions that have rows or a policy, what cannot be read)."""
        found, faults = [], []
        try:
            names = self.ledgers.names()
        except LedgerUnavailable as error:
            names, faults = (), [str(error)]
        for name in sorted({*names, *self._policies, *filter(valid_name, self._lost)}):
            try:
                found.append(self.report(name))
            except (LedgerUnavailable, InvalidRow) as error:
                faults.append(str(error))
        return found, faults

    @property
    def ledger_unavailable(self) -> int:
        """Rows that could not be kept since the start."""
        return sum(self._lost.values())

    def _lose(self, decision: object, error: Exception) -> None:
        name = str(decision)[:80]
        with self._lock:
            first = name not in self._lost
            if first and len(self._lost) >= 256:
                name, first = "(others)", False
            self._lost[name] = self._lost.get(name, 0) + 1
        if first:
            self._log.warning("shadow gate: rows of %r are not kept: %s", name, error)
