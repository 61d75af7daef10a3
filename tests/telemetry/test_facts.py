"""The table of facts and its page."""

from hermes_daemon.core.telemetry import FACTS, Silent, TurnMeasured, attributes
from hermes_daemon.telemetry.families import COUNTED, EXPORTED

CONTENT = ("prompt", "input", "output", "text", "args", "arguments", "path", "title", "message", "reason")
UNITS = {"ms", "bytes", "tokens", "USD", "truth", "number", "rounds", "calls", "attempts", "times", "messages",
         "writes", "sessions", "questions", "connections", "word", "name"}  # fmt: skip


def test_every_fact_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({fact.event for fact in FACTS}) == len(FACTS)
    for fact in FACTS:
        assert fact.event
        assert (fact.__doc__ or "").endswith(".")


def test_every_attribute_has_a_unit_and_a_meaning_and_says_its_unit() -> None:
    for fact in FACTS:
        for row in attributes(fact):
            assert row.unit in UNITS, row
            assert row.meaning, row
            assert row.name.endswith("Ms") == (row.unit == "ms"), row
            assert row.name.endswith("Bytes") == (row.unit == "bytes"), row


def test_texts_and_numbers_are_what_their_types_say() -> None:
    for fact in FACTS:
        example = fact()
        for row in attributes(fact):
            assert isinstance(getattr(example, row.field), str) == row.is_text, row


def test_no_attribute_is_made_for_contents() -> None:
    for fact in FACTS:
        if not fact.opt_in:  # the trace of middleware holds its own words, for who asks for them by name
            assert not [row.name for row in attributes(fact) if row.is_text and row.name in CONTENT]


def test_names_are_those_of_the_wire() -> None:
    assert "firstTokenMs" in [row.name for row in attributes(TurnMeasured)]


def test_silence_takes_everything() -> None:
    silent = Silent()
    silent.emit(TurnMeasured(), "s", "t")
    silent.hear("all", lambda told: None)
    assert not silent.wanted
    assert silent.series() == ()


def test_metrics_follow_the_naming_rules_of_prometheus() -> None:
    for family in (*COUNTED, *EXPORTED):
        assert family.otel, family.name
        if family in EXPORTED:
            continue
        assert family.name.startswith("hermes_")
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert bool(family.buckets) == (family.kind == "histogram")
        assert list(family.buckets) == sorted(family.buckets)
        if family.kind == "histogram":
            assert family.name.endswith("_seconds")
