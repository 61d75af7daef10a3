from typing import Annotated, Any, Literal

import msgspec
import pytest

from hermes_daemon.core.cards import card_of


class Place(msgspec.Struct):
    line: int


async def look(
    ctx: Any,
    path: str,
    mode: Literal["fast", "slow"] = "fast",
    limit: Annotated[int, msgspec.Meta(ge=1, le=9)] = 5,
    names: list[str] | None = None,
) -> str:
    """Look at a file.

    More words.

    Args:
        path: where it is,
            relative to the folder
        limit: how many
    """
    return path


def test_the_signature_becomes_the_schema_and_the_docstring_the_words() -> None:
    card = card_of(look, toolset="file", kind="read", read_only=True, paths=("path",))
    assert card.name == "look"
    assert card.description == "Look at a file.\n\nMore words."
    assert card.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where it is, relative to the folder"},
            "mode": {"enum": ["fast", "slow"], "default": "fast"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 9, "description": "how many", "default": 5},
            "names": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert card.read_only
    assert card.paths == ("path",)


def test_structs_become_definitions() -> None:
    async def go(ctx: Any, places: list[Place]) -> str:
        return ""

    parameters = card_of(go, toolset="x").parameters
    assert parameters["properties"]["places"] == {"type": "array", "items": {"$ref": "#/$defs/Place"}}
    assert parameters["$defs"]["Place"]["required"] == ["line"]


def test_a_parameter_without_a_type_is_named() -> None:
    async def go(ctx: Any, path) -> str:  # type: ignore[no-untyped-def]
        return ""

    with pytest.raises(TypeError, match="go: parameter 'path' has no type"):
        card_of(go, toolset="x")


def test_a_described_argument_that_does_not_exist_is_named() -> None:
    async def go(ctx: Any, path: str) -> str:
        """Go.

        Args:
            pth: a slip
        """
        return ""

    with pytest.raises(TypeError, match="pth"):
        card_of(go, toolset="x")


def test_a_list_of_arguments_is_refused_as_a_parameter() -> None:
    async def go(ctx: Any, *paths: str) -> str:
        return ""

    with pytest.raises(TypeError, match="ordinary named parameter"):
        card_of(go, toolset="x")
