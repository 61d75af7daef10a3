"""A value of another type anywhere in the params of any method is refused with the path to it. Made from the types."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest

from hermes_protocol.methods import METHODS
from tests.support.live import live

PARAMS = {name: row.params for name, row in METHODS.items()}


def valid(annotation: Any) -> Any:
    """A JSON value of the type, as short as possible."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        fields = msgspec.structs.fields(annotation)
        tag = annotation.__struct_config__.tag
        head = {str(annotation.__struct_config__.tag_field): tag} if tag is not None else {}
        return head | {field.encode_name: valid(field.type) for field in fields if field.required}
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return valid(args[0])
    if origin is Literal:
        return args[0]
    if origin in (Union, types.UnionType):
        return None if type(None) in args else valid(args[0])
    shortest: dict[Any, Any] = {tuple: [], dict: {}, str: "", int: 1, float: 1.5, bool: True, Any: None}
    return shortest[origin or annotation]


def wrong(annotation: Any, path: str) -> Iterator[tuple[Any, str]]:
    """(a value with one thing of a wrong type in it, the path of that thing) for everything inside the type."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        whole = valid(annotation)
        yield 5, path
        for field in msgspec.structs.fields(annotation):
            at = f"{path}.{field.encode_name}"
            if field.required:
                yield {name: below for name, below in whole.items() if name != field.encode_name}, path
            for value, place in wrong(field.type, at):
                yield whole | {field.encode_name: value}, place
        return
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from wrong(args[0], path)
    elif origin is Literal:
        yield "a word that is none of these", path
    elif origin in (Union, types.UnionType):
        members = [member for member in args if member is not type(None)]
        structs = [member for member in members if isinstance(member, type) and issubclass(member, msgspec.Struct)]
        if len(structs) > 1:
            yield {"type": "none of these"}, f"{path}.type"
        if len(members) == 1 or structs:
            for member in members:
                yield from wrong(member, path)
        else:
            yield {"neither": "of these"}, path
    elif origin is tuple:
        yield "no list", path
        for value, place in wrong(args[0], f"{path}[1]"):
            yield [valid(args[0]), value], place
    elif origin is dict:
        yield ["no object"], path
        for value, place in wrong(args[1], f"{path}[...]"):
            yield {"name": value}, place
    elif annotation is not Any:
        yield {str: 5, int: "5", float: "1.5", bool: "true"}[annotation], path


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_wrong_type_is_refused_by_the_decoder_with_its_path(method: str) -> None:
    struct = PARAMS[method]
    assert msgspec.json.decode(msgspec.json.encode(valid(struct)), type=struct) is not None
    for params, path in wrong(struct, "$"):
        with pytest.raises(msgspec.ValidationError) as refused:
            msgspec.json.decode(msgspec.json.encode(params), type=struct)
        found = str(refused.value).rpartition(" - at `")[2].rstrip("`") if " - at `" in str(refused.value) else "$"
        assert found == path, (params, str(refused.value))


def test_a_client_gets_invalid_params_with_that_path_for_each(tmp_path: Path) -> None:
    cases = [(method, params, path) for method in sorted(METHODS) for params, path in wrong(PARAMS[method], "$")]
    cases = [case for case in cases if isinstance(case[1], dict)]  # what is no object at all is no request
    assert len(cases) > 100

    async def story() -> None:
        async with live(str(tmp_path)) as daemon:
            peer = await daemon.peer()
            for method, params, path in cases:
                # Waiting is for nothing here, and nothing is in flight: the decoder answers.
                error = await peer.refused(method, params)
                assert error["code"] == -32602, (method, params, error)
                assert error["data"]["kind"] == "invalid_params"
                assert error["data"]["path"] == path, (method, params, error)

    asyncio.run(story())
