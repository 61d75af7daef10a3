from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hermes_protocol import schema
from tests.stories.story import FOLDER, MATCHERS, PASSED_OVER, read, stories

DOCUMENT = schema.document("jsonschema")
FRAMES = Draft202012Validator(DOCUMENT)
PLACEHOLDERS = {"$int": 1, "$number": 1.5}


NUMBERS = {"seq", "prev", "head"}  # where a name of a story stands for a number


def concrete(value: Any, key: str = "") -> Any:
    """A frame with something of the right type where the story has a matcher or a name."""
    if key in NUMBERS and isinstance(value, str):
        return 1
    if isinstance(value, dict):
        return {name: concrete(below, name) for name, below in value.items() if below != "$absent"}
    if isinstance(value, list):
        return [concrete(below) for below in value if below != "$rest"]
    return PLACEHOLDERS.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize("path", stories(), ids=lambda path: path.stem)
def test_every_frame_of_a_story_is_one_that_the_protocol_has(path: Path) -> None:
    steps = read(path).steps
    refused = {step.heard.get("id") for step in steps if step.heard is not None and "error" in step.heard}
    for step in steps:
        if step.heard is not None:
            FRAMES.validate(concrete(step.heard))
        elif step.said is not None and step.said.get("id") not in refused:
            FRAMES.validate(concrete(step.said))


def test_there_is_a_story_for_each_thing_a_client_must_do() -> None:
    alone = {"hello", "turn", "permission", "interrupt", "reconnect", "bad-input", "queue", "steer", "branch"}
    assert alone | {"clarify", "late-join"} <= {path.stem for path in stories()}


def test_the_page_about_stories_tells_every_matcher_and_every_kind_passed_over() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert not [matcher for matcher in (*MATCHERS, "$absent", "$rest", "${work}") if matcher not in page]
    assert not [kind for kind in PASSED_OVER if f"`{kind}`" not in page]
