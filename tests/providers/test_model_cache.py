from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hermes_daemon.providers.model_cache import Listing, ModelCache


def test_what_was_learned_outlives_the_process(tmp_path: Path) -> None:
    path = str(tmp_path / "cache" / "models.json")
    cache = ModelCache(path)
    assert cache.listing("p", "u") is None
    cache.keep_listing("p", Listing("u", 5.0, [{"id": "a"}]))
    cache.keep_limit("p/a", 8192)
    again = ModelCache(path)
    assert again.listing("p", "u") == Listing("u", 5.0, [{"id": "a"}])
    assert again.listing("p", "elsewhere") is None
    assert again.limit("p/a") == 8192
    again.forget_limit("p/a")
    assert ModelCache(path).limit("p/a") is None
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["models.json"]


@pytest.mark.parametrize("content", ["", "{", '{"listings": 7}', "[]"])
def test_a_broken_file_counts_as_empty(tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "models.json"
    path.write_text(content)
    with caplog.at_level(logging.WARNING):
        assert ModelCache(str(path)).limit("x") is None
    assert "begins anew" in caplog.text


def test_a_place_that_cannot_be_written_costs_the_memory_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    cache = ModelCache(str(tmp_path / "cache" / "models.json"))
    with caplog.at_level(logging.WARNING):
        cache.keep_limit("p/a", 5)
    assert cache.limit("p/a") == 5
    assert "cannot be written" in caplog.text
