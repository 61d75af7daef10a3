"""The tools that are always there."""

from __future__ import annotations

from hermes_daemon.tools.clarify import clarify_tool
from hermes_daemon.tools.edit_file import patch_tool, write_file_tool
from hermes_daemon.tools.read_file import read_file_tool
from hermes_daemon.tools.registry import Registry
from hermes_daemon.tools.search.tool import search_files_tool
from hermes_daemon.tools.terminal.tool import terminal_tool
from hermes_daemon.tools.versions import Versions


def builtin_tools(home: str = "") -> Registry:
    """terminal, read_file, write_file, patch, search_files and clarify.

    `home` is the daemon's own folder: its database, its .env and its logs are out of reach for the file tools.
    """
    versions = Versions()
    return Registry(
        (
            terminal_tool(),
            read_file_tool(versions, home),
            write_file_tool(versions, home),
            patch_tool(versions, home),
            search_files_tool(home),
            clarify_tool(),
        )
    )
