import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from docs.generate import ROOT
from hermes_daemon.config import load
from hermes_protocol import schema

PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("protocol/**/*.md"))
    if ".venv" not in path.parts
)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_to_a_file_of_ours_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named_targets = re.findall(r"^    make ([a-z]+)", text, re.MULTILINE) + re.findall(r"`make ([a-z]+)", text)
    assert set(named_targets) <= TARGETS


def test_every_frame_on_the_page_for_client_authors_is_a_valid_one() -> None:
    text = (ROOT / "protocol/README.md").read_text(encoding="utf-8")
    frames = [line for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert len(frames) > 8
    check = Draft202012Validator(schema.document("jsonschema"))
    for frame in frames:
        check.validate(json.loads(frame))


def test_the_readme_shows_a_valid_configuration_and_the_two_commands(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    (tmp_path / "config.yaml").write_text(example[1])
    loaded = load(str(tmp_path), {})
    assert loaded.errors == ()
    assert loaded.warnings == ()
    assert re.findall(r"^    (make \w+)$", text, re.MULTILINE) == ["make try", "make test"]


HOW_TO_SETTINGS = [
    pytest.param(block, id=f"{path.stem}-{number}")
    for path in sorted(ROOT.glob("docs/howto/*.md"))
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("block", HOW_TO_SETTINGS)
def test_the_settings_of_a_how_to_can_be_copied_as_they_stand(block: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(block)
    loaded = load(str(tmp_path), {})
    assert (loaded.errors, loaded.warnings) == ((), ())


def test_the_readme_leads_to_every_how_to() -> None:
    links = set(re.findall(r"\]\((docs/howto/[^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert links == {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/howto/*.md")}


def test_make_help_tells_every_target() -> None:
    told = set(re.findall(r"^([a-z]+):.*## ", MAKEFILE, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert told == TARGETS == set(phony[1].split())
