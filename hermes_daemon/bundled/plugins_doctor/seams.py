"""What plugins rely on in a host, by the ids of the seams: a table that is looked up in the host at hand."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from hermes_daemon.api import POINTS, DoctorRow

CONTEXT: Final = "ctx"
HOST: Final = "host"
POINT: Final = "point"
MANIFEST: Final = "manifest"
TOOL_CONTEXT: Final = "tool"

SEAMS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("S2", CONTEXT, ("register_hook", "register_middleware", "use", "on")),
    ("S3", POINT, ("pre_tool_call",)),
    ("S4", POINT, ("post_tool_call", "post_tool_call_settled")),
    ("S5", HOST, ("cancel_model_call",)),
    ("S6", HOST, ("set_turn_reasoning",)),
    ("S7", CONTEXT, ("register_role_resolver",)),
    ("S10", TOOL_CONTEXT, ("ask",)),
    ("S11", POINT, ("pre_verify",)),
    ("S12", POINT, ("post_compaction",)),
    ("S13", POINT, ("tool_result", "output")),
    ("S14", CONTEXT, ("register_context_engine",)),
    ("S18", POINT, ("pre_llm_call",)),
    (
        "S19",
        POINT,
        (
            "on_session_start", "on_session_end", "on_session_finalize", "on_session_reset", "subagent_start",
            "subagent_stop",
        ),
    ),
    (
        "S20",
        CONTEXT,
        (
            "get_config", "set_config", "state", "database", "secret", "redact", "register_tool", "register_command",
            "register_cli_command", "has_plugin", "get_service", "offer_service", "dispatch_tool", "inject_message",
        ),
    ),
    ("S21", POINT, ("pre_approval_request", "post_approval_response")),
    (
        "S22",
        MANIFEST,
        (
            "name", "version", "provides_tools", "provides_hooks", "provides_middleware", "config_schema",
            "requires_plugins", "capabilities",
        ),
    ),
)  # fmt: skip
"""(id, where it is looked up, names). A seam is added with the part of the host that offers it."""


def seam_rows(
    ctx: Any, host: Any, manifest: Any, tool_context: Any, points: Collection[str] = tuple(POINTS)
) -> Iterator[DoctorRow]:
    """A `fail` for each name that is missing, else one `ok`. A missing `host` fails for each name of it."""
    places = {CONTEXT: ctx, HOST: host, MANIFEST: manifest, TOOL_CONTEXT: tool_context}
    missing = False
    for id, where, names in SEAMS:
        for name in names:
            if name in points if where == POINT else hasattr(places[where], name):
                continue
            missing = True
            yield DoctorRow("seams", "host", "fail", f"{id}: {where} has no {name}")
    if not missing:
        yield DoctorRow("seams", "host", "ok", f"{len(SEAMS)} seams are there")
