from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hermes_protocol import schema
from hermes_protocol.methods import METHODS
from tests.stories.story import FOLDER, read, stories

DOCUMENT = schema.document("jsonschema")
FRAMES = Draft202012Validator(DOCUMENT)
PLACEHOLDERS = {"$int": 1, "$number": 1.5}


def concrete(value: Any) -> Any:
    """A frame with something of the right type where the story has a matcher."""
    if isinstance(value, dict):
        return {key: concrete(below) for key, below in value.items() if below != "$absent"}
    if isinstance(value, list):
        return [concrete(below) for below in value if below != "$rest"]
    return PLACEHOLDERS.get(value, value) if isinstance(value, str) else value


def method_params(frame: Any) -> bool:
    return isinstance(frame, dict) and frame.get("method") in {"initialize", *METHODS}


@pytest.mark.parametrize("path", stories(), ids=lambda path: path.stem)
def test_every_frame_of_a_story_is_one_that_the_protocol_has(path: Path) -> None:
    story = read(path)
    wrong: set[Any] = set()
    for step in story.steps:
        frame = step.said if step.said is not None else step.heard
        if frame is None:
            continue
        if step.heard is not None and "error" in step.heard:
            wrong.add(step.heard.get("id"))
    for step in story.steps:
        if step.heard is not None:
            FRAMES.validate(concrete(step.heard))
        elif step.said is not None and step.said.get("id") not in wrong:
            FRAMES.validate(concrete(step.said))


def test_there_is_a_story_for_each_thing_a_client_must_do() -> None:
    assert {"hello", "turn", "permission", "interrupt", "reconnect", "bad-input"} <= {path.stem for path in stories()}


def test_the_page_about_stories_shows_lines_that_can_be_read(tmp_path: Path) -> None:
    assert "python -m tests.stories.record" in (FOLDER / "README.md").read_text(encoding="utf-8")
