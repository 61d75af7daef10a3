"""The ground under every client: addresses, locks, connect or start, a blocking connection. Standard library only.

Modules here import as little as possible: the whole of `hermes chat -q` is measured against `python -c pass`, and
each of pathlib, typing, socket, json and dataclasses costs more than the work they would do here.
"""

__version__ = "0.1.0"

# What this code speaks, newest last; compared with the daemon's own list in `initialize`.
PROTOCOL_VERSIONS = ("1.0",)
