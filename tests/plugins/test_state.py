"""What a plugin keeps."""

import multiprocessing
from pathlib import Path

import pytest

from hermes_daemon.core.ports import Refused
from hermes_daemon.plugins.state import PluginState


def count_up(folder: str, name: str) -> None:
    state = PluginState(folder)
    for number in range(30):
        state.set(f"{name}{number}", number)


def test_values_stay_and_go(tmp_path: Path) -> None:
    state = PluginState(str(tmp_path / "deep" / "own"))
    state.set("a", {"b": [1]})
    assert PluginState(state.folder).get("a") == {"b": [1]}
    state.delete("a")
    state.delete("a")
    assert (state.get("a", 7), state.keys()) == (7, ())


def test_two_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    start = multiprocessing.get_context("spawn")
    workers = [start.Process(target=count_up, args=(str(tmp_path), name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(PluginState(str(tmp_path)).keys()) == 60


def test_too_much_odd_keys_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    state = PluginState(str(tmp_path))
    state.set("a", 1)
    with pytest.raises(Refused, match="10,485,760"):
        state.set("b", "x" * 11_000_000)
    with pytest.raises(Refused, match="a key of plugin state"):
        state.set("../b", 1)
    assert state.keys() == ("a",)
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(Refused, match=r"state\.json is damaged"):
        state.set("c", 1)
