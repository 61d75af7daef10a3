"""Images in a request: sent where the model sees them, else a line of text in their place or a refusal. Pure."""

from __future__ import annotations

import msgspec

from hermes_daemon.core.ports import Request
from hermes_daemon.providers.wire import Terms, Unsendable
from hermes_protocol.content import ImagePart, Part, TextPart


def seen(request: Request, terms: Terms) -> Request:
    """The request with only those images in it that can be sent. Raises Unsendable where the settings want that.

    A model that nobody knows is sent the images: it can say no for itself. An image whose bytes are gone is told as
    such in any case.
    """
    if not any(isinstance(part, ImagePart) for message in request.messages for part in message.parts):
        return request
    blind = terms.traits.vision is False
    if blind and terms.images == "refuse":
        raise Unsendable(
            "This model does not see images: choose one that does, or set `images: placeholder` for its provider."
        )
    messages = tuple(
        msgspec.structs.replace(message, parts=tuple(_told(part, blind) for part in message.parts))
        for message in request.messages
    )
    return msgspec.structs.replace(request, messages=messages)


def _told(part: Part, blind: bool) -> Part:
    if not isinstance(part, ImagePart):
        return part
    if not part.data:
        return TextPart(f"[image {part.mime}, not available any more]")
    return TextPart(f"[image {part.mime}, which this model cannot see]") if blind else part
