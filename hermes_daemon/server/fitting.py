"""No frame exceeds what its reader takes (maxFrameBytes): what is too long is cut to its head and tail.

Cutting is for showing. The whole text of a message item stays readable by hermes/blob/read, under the id that the cut
item carries in `blob`; big tool outputs are blobs from the beginning.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

CUTS: Final = (65_536, 16_384, 4_096, 1_024, 256, 64)
TEXT_BLOB: Final = "text:"
_SPOKEN: Final = frozenset({"userMessage", "agentMessage", "reasoning"})
_encode = msgspec.json.Encoder().encode


def fitted(value: Any, limit: int, session_id: str = "") -> Any:
    """`value` as plain JSON values with its longest strings cut, so that it encodes to at most `limit` bytes.

    Where even the shortest cut is too long the shortest is given: then there are too many values, not too long ones.
    """
    plain = msgspec.to_builtins(value)
    cut = plain
    for chars in CUTS:
        cut = _cut(plain, chars, session_id)
        if len(_encode(cut)) <= limit:
            break
    return cut


def text_blob_id(session_id: str, item_id: str) -> str:
    """The blob id under which the whole text of a message, or output of a tool, is read that was cut for a frame."""
    return f"{TEXT_BLOB}{session_id}:{item_id}"


def text_blob_of(blob_id: str) -> tuple[str, str] | None:
    """(session id, item id) of a `text_blob_id`, None for any other blob id."""
    if not blob_id.startswith(TEXT_BLOB):
        return None
    session_id, _, item_id = blob_id.removeprefix(TEXT_BLOB).partition(":")
    return session_id, item_id


def _cut(value: Any, chars: int, session_id: str) -> Any:
    if isinstance(value, str):
        return _shortened(value, chars)
    if isinstance(value, (list, tuple)):
        return [_cut(entry, chars, session_id) for entry in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "image" and len(value.get("data") or "") > chars:
        # Half an image is none: say what was there.
        return {"type": "text", "text": f"[{value.get('mime', 'image')}, {len(value['data']):,} bytes of base64]"}
    cut = {name: _cut(entry, chars, session_id) for name, entry in value.items()}
    text, output = value.get("text"), value.get("output")
    if value.get("type") in _SPOKEN and session_id and isinstance(text, str) and cut["text"] != text:
        cut["blob"] = _whole(session_id, value["itemId"], text)
    elif value.get("type") == "toolCall" and output is not None:
        cut["output"] = _cut_output(output, chars, session_id, value["itemId"])
    return cut


def _cut_output(output: dict[str, Any], chars: int, session_id: str, item_id: str) -> dict[str, Any]:
    """A tool's output in its own form for what is too long: head, tail and a blob."""
    text = output.get("text")
    if text is not None and (len(text) <= chars or not session_id):
        return {"text": _shortened(text, chars)}
    head, rest = chars * 2 // 5, chars - chars * 2 // 5
    blob = output.get("blob") if text is None else _whole(session_id, item_id, text)
    start, end = (output.get("head", ""), output.get("tail", "")) if text is None else (text, text)
    return {"head": start[:head], "tail": end[max(0, len(end) - rest) :], **({"blob": blob} if blob else {})}


def _whole(session_id: str, item_id: str, text: str) -> dict[str, Any]:
    return {"id": text_blob_id(session_id, item_id), "bytes": len(text.encode()), "lines": text.count("\n") + 1}


def _shortened(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    head = chars * 2 // 5
    tail = chars - head
    return f"{text[:head]}\n… {len(text) - chars:,} characters left out …\n{text[len(text) - tail :]}"
