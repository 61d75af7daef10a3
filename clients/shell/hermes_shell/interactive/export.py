"""A session written to a file, as Markdown for people or JSON for programs."""

from __future__ import annotations

import msgspec

from hermes_client import Connection
from hermes_client.view import shown_output
from hermes_protocol import events as e
from hermes_protocol import methods as m

PAGE = 500


async def all_items(connection: Connection, session_id: str) -> tuple[e.AnyItem, ...]:
    """Every completed item of a session, oldest first."""
    items: list[e.AnyItem] = []
    after: str | None = None
    while True:
        params = m.ItemsParams(session_id, after=after, limit=PAGE)
        page = await connection.request("hermes/session/items", params, m.ItemsResult, resend=True)
        items.extend(page.items)
        if page.next_cursor is None or not page.items:
            return tuple(items)
        after = page.items[-1].item_id


def as_json(session: e.SessionSummary, items: tuple[e.AnyItem, ...]) -> str:
    """`{session, items}` as on the wire, indented."""
    return msgspec.json.format(msgspec.json.encode({"session": session, "items": items}), indent=2).decode() + "\n"


def as_markdown(session: e.SessionSummary, items: tuple[e.AnyItem, ...]) -> str:
    """One section a message; tool calls with their output in code blocks."""
    parts = [f"# {session.title or session.session_id}", f"{session.model} in `{session.cwd}`, {session.created_at}"]
    parts.extend(text for text in map(_section, items) if text)
    return "\n\n".join(parts) + "\n"


def _section(item: e.AnyItem) -> str:
    match item:
        case e.UserMessage():
            return f"## {item.by.name or 'User' if item.by else 'User'}\n\n{item.text}"
        case e.AgentMessage():
            return f"## {item.model or 'Agent'}\n\n{item.text}"
        case e.ToolCallItem():
            output = shown_output(item.output) or item.error or ""
            return f"**{item.title or item.name}** ({item.status})\n\n{_fenced(output)}"
        case e.FileChange():
            return f"**{item.kind} `{item.path}`**\n\n{_fenced(item.diff, 'diff')}"
        case e.NoticeItem():
            return f"> {item.level}: {item.text}"
    return ""


def _fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any inside it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
