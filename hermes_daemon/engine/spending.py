"""What a turn's model calls used: added up for the turn, and kept call by call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hermes_daemon.core.records import AddUsage
from hermes_protocol.content import Usage

if TYPE_CHECKING:
    from hermes_daemon.engine.runner import Runner


class Spending:
    """The sum of one turn."""

    def __init__(self) -> None:
        self._known = Usage()
        self._unknown = False

    @property
    def total(self) -> Usage:
        """What was used so far; a sum of which a part has no known cost says so."""
        if not self._unknown or self._known.cost is None:
            return self._known
        return msgspec.structs.replace(self._known, cost_partial=True)

    def add(self, runner: Runner, model: str, round: int, usage: Usage | None) -> None:
        """Count a call of a round; its row is written with the next record of the turn. `usage` None: the endpoint did
        not tell, or the call broke off when it had begun to answer, which is billed all the same."""
        session = runner.session
        self._unknown |= usage is None
        self._known += usage or Usage()
        runner.keep(
            AddUsage(
                session_id=session.session_id,
                model=model,
                at=session.parts.clock.now(),
                usage=usage,
                turn_id=runner.turn_id,
                round=round,
            )
        )
