"""Where facts come together: who gets them, cleaned of what, and that nothing there can hurt a turn."""

import asyncio
import logging

import pytest

from hermes_daemon.core.telemetry import JournalCommitted, Measured, ModelCalled, Told, ToolCalled, TurnMeasured
from hermes_daemon.telemetry.hub import LONGEST_TEXT, Hub


class Kept:
    """An exporter that keeps what it gets."""

    def __init__(self) -> None:
        self.facts: list[Measured] = []
        self.stopped = False

    def take(self, told: Told) -> None:
        self.facts.append(told.fact)

    def stop(self) -> None:
        self.stopped = True


def without_keys(text: str) -> str:
    return text.replace("key-1", "***")


def test_names_are_cleaned_for_everybody_and_our_own_words_left_alone() -> None:
    hub, kept, heard = Hub(without_keys), Kept(), list[Told]()
    hub.export(kept)
    hub.hear("all", heard.append)
    hub.emit(ModelCalled("key-1", "model-key-1", "key-1 is no word of ours"), "s", "t")
    (fact,) = kept.facts
    assert isinstance(fact, ModelCalled)
    assert (fact.provider, fact.model) == ("***", "model-***")
    assert [one.fact for one in heard] == [fact]
    assert {one.labels[:2] for one in hub.series() if "provider" in one.family.labels} == {("***", "model-***")}


def test_a_text_has_an_end() -> None:
    hub, kept = Hub(), Kept()
    hub.export(kept)
    hub.emit(ToolCalled(tool="x" * 10_000))
    assert len(str(getattr(kept.facts[0], "tool"))) == LONGEST_TEXT  # noqa: B009


def test_a_fact_that_needs_no_cleaning_is_handed_on_as_it_is() -> None:
    hub, kept, fact = Hub(), Kept(), TurnMeasured(status="completed")
    hub.export(kept)
    hub.emit(fact)
    assert kept.facts[0] is fact


def test_it_is_wanted_while_anybody_takes_anything() -> None:
    hub, kept = Hub(counting=False), Kept()
    assert not hub.wanted
    hub.hear("metrics", lambda told: None)
    assert hub.wanted
    hub.hear("off", None)
    assert not hub.wanted
    hub.export(kept)
    assert hub.wanted
    hub.export(None)
    assert kept.stopped
    assert not hub.wanted
    hub.count(True)
    assert hub.wanted


def test_nothing_is_counted_or_handed_on_when_it_is_not_wanted() -> None:
    hub = Hub(counting=False)
    hub.emit(TurnMeasured(status="completed"))
    hub.committed(0.1, 1, True)
    assert not [one for one in hub.series() if one.labels]


def test_who_fails_costs_the_others_nothing_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    hub, kept = Hub(), Kept()

    def broken(told: Told) -> None:
        raise RuntimeError("a bug in a listener")

    hub.hear("all", broken)
    hub.export(kept)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            hub.emit(TurnMeasured(status="completed"))
    assert len(kept.facts) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "telemetry: the connections failed: a bug in a listener"
    ]


def test_a_redactor_that_fails_lets_nothing_out(caplog: pytest.LogCaptureFixture) -> None:
    def broken(text: str) -> str:
        raise ValueError("a bug in the redactor")

    hub, kept = Hub(broken), Kept()
    hub.export(kept)
    hub.emit(ModelCalled("lab", "small", "stop"))
    assert kept.facts == []
    assert "a bug in the redactor" in caplog.text


def test_commits_are_counted_on_the_stores_thread_and_told_on_the_loop_to_who_wants_every_detail() -> None:
    async def story() -> list[Measured]:
        loop, heard = asyncio.get_running_loop(), asyncio.Queue[Told]()
        hub = Hub()
        hub.hear_commits(loop.call_soon_threadsafe)
        hub.hear("metrics", heard.put_nowait)
        await asyncio.to_thread(hub.committed, 0.25, 3, True)
        hub.hear("all", heard.put_nowait)
        await asyncio.to_thread(hub.committed, 0.5, 4, False)
        first = await heard.get()
        assert heard.empty()
        writes = [one.value for one in hub.series() if one.family.name == "hermes_journal_writes_total"]
        assert writes == [7]
        return [first.fact]

    assert asyncio.run(story()) == [JournalCommitted(500.0, 4, False)]


def test_a_commit_after_the_end_of_the_loop_is_nobodys_trouble() -> None:
    async def made() -> Hub:
        hub = Hub()
        hub.hear_commits(asyncio.get_running_loop().call_soon_threadsafe)
        hub.hear("all", lambda told: None)
        return hub

    hub = asyncio.run(made())
    hub.committed(0.1, 1, True)
    assert [one.value for one in hub.series() if one.family.name == "hermes_journal_writes_total"] == [1]
