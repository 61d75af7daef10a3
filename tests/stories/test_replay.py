from pathlib import Path

import pytest

from tests.stories.replay import prepare, replay
from tests.stories.story import read, stories
from tests.support.daemon_process import running_daemon
from tests.support.peer import Framing


@pytest.mark.parametrize("framing", ["newline", "content-length"])
@pytest.mark.parametrize("path", stories(), ids=lambda path: path.stem)
def test_a_daemon_says_what_the_story_says(path: Path, framing: Framing, tmp_path: Path) -> None:
    story = read(path)
    work = tmp_path / "work"
    work.mkdir()
    with running_daemon(tmp_path, prepare(story, tmp_path, work)) as daemon:
        replay(story, daemon.socket_path, work, framing)
