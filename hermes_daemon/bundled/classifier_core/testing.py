"""A stand-in for the shared client, for the tests of plugins that ask it. Nothing is sent anywhere.

stub = ClassifierStub()
stub.install({"risk": {"type": "choice", "choice": "low", "confidence": 0.9, "probabilities": {"low": 1.0}}})
with install(folder, services=stub.services) as plugin: ...
assert stub.asked[0].caller == "my-plugin"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from .answers import Answer, read
from .client import Cancel
from .declines import Declined
from .heads import Labels, parsed, rendered
from .questions import checked
from .tally import Tally

Reply: TypeAlias = Mapping[str, Mapping[str, Any]] | Callable[[Any, Mapping[str, Any]], Mapping[str, Any] | None]
Given: TypeAlias = Mapping[str, Labels] | Callable[[Any, Mapping[str, Any]], Mapping[str, Labels] | None]


class Asked(msgspec.Struct, frozen=True):
    """One call: `questions` are those of `ask`, or the heads of `classify`."""

    caller: str
    state: Any
    questions: dict[str, Any]


class ClassifierStub:
    """`services` is what the plugin under test finds: the service, or nothing after `install(absent=True)`.

    It keeps the limits and the law of answers of the real one: 33 heads are declined as text_limits, an answer outside
    [0, 1] as unusable_body. What is asked and was not installed is declined as service_error.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.tally = Tally()
        self.services: dict[str, Any] = {}
        self._reply: Reply | None = None
        self._labels: Given | None = None

    def install(
        self, reply: Reply | None = None, *, labels: Given | None = None, absent: bool = False
    ) -> ClassifierStub:
        """Answer `ask` with `reply` and `classify` with `labels`: by id, or as fn(state, questions), whose None
        declines. `absent` takes the service away."""
        self._reply, self._labels = reply, labels
        self.services.clear()
        if not absent:
            self.services["classifier_core"] = self
        return self

    async def ask(self, caller: str, state: Any, questions: Mapping[str, Mapping[str, Any]], *,
                  cancel: Cancel | None = None) -> dict[str, Answer] | None:  # fmt: skip
        """As the client's."""
        return self.ask_blocking(caller, state, questions, cancel=cancel)

    async def classify(self, caller: str, state: Any, heads: Mapping[str, Mapping[str, Any]], *,
                       cancel: Cancel | None = None) -> dict[str, Labels] | None:  # fmt: skip
        """As the client's."""
        return self.classify_blocking(caller, state, heads, cancel=cancel)

    def ask_blocking(self, caller: str, state: Any, questions: Mapping[str, Mapping[str, Any]], *,
                     cancel: Cancel | None = None) -> dict[str, Answer] | None:  # fmt: skip
        """As the client's."""

        def work() -> dict[str, Answer]:
            wanted = checked(questions)
            return read(wanted, _said(self._reply, state, questions))

        return self._counted(caller, state, questions, cancel, work)

    def classify_blocking(self, caller: str, state: Any, heads: Mapping[str, Mapping[str, Any]], *,
                          cancel: Cancel | None = None) -> dict[str, Labels] | None:  # fmt: skip
        """As the client's."""

        def work() -> dict[str, Labels]:
            wanted = parsed(heads)
            rendered(wanted)
            said = _said(self._labels, state, heads)
            found: dict[str, Labels] = {}
            for head in wanted:
                given = said.get(head.id)
                labels = (given,) if isinstance(given, str) else tuple(given or ())
                if set(labels) - set(head.labels) or (head.threshold is None and len(labels) != 1):
                    raise Declined("unusable_body", f"head {head.id!r}: is none of the labels")
                found[head.id] = labels[0] if head.threshold is None else labels
            return found

        return self._counted(caller, state, heads, cancel, work)

    def _counted(self, caller: str, state: Any, questions: Mapping[str, Any], cancel: Cancel | None,
                 work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:  # fmt: skip
        self.asked.append(Asked(caller, state, dict(questions)))
        try:
            if cancel is not None and cancel.is_set():
                raise Declined("cancelled")
            result = work()
        except Declined as declined:
            self.tally.decline(caller, declined.reason, declined.problem)
            return None
        self.tally.accept(caller)
        return result


def _said(source: Any, state: Any, questions: Mapping[str, Any]) -> Mapping[str, Any]:
    said = source(state, questions) if callable(source) else source
    if said is None:
        raise Declined("service_error", "the stand-in was given no answer")
    return dict(said)
