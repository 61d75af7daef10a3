"""A second installation of this source tree, changed as a later or an earlier version would be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = {
    "hermes_local": "protocol",
    "hermes_protocol": "protocol",
    "hermes_daemon": ".",
    "hermes_client": "clients/python",
    "hermes_shell": "clients/shell",
}

# What a reader of the other version finds there and not here, and the reverse: in the answer of status, and in the
# hello, of which only protocolVersions and client are frozen.
OTHER_FIELDS = {
    "hermes_protocol/methods.py": {
        "    rss_bytes: int\n": "    resident_bytes: int\n",
        "    handover: Handover | None = None\n": "    handover: Handover | None = None\n    mood: str = 'good'\n",
    },
    "hermes_daemon/server/daemon.py": {
        "            rss_bytes=rss_bytes(),\n": "            resident_bytes=rss_bytes(),\n"
    },
    "hermes_local/connection.py": {'"client": {"id"': '"novelty": {"deep": [1]}, "client": {"age": 3, "id"'},
}
OTHER_HELLO = {
    "hermes_protocol/methods.py": {"    takeover: bool = False\n": "    takeover: Any = False\n"},
    "hermes_local/connection.py": {'"protocolVersions": list(': '"takeover": {"of": []}, "protocolVersions": list('},
}


class Build:
    """Source in a folder of its own; `path` is its PYTHONPATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        for name, room in PACKAGES.items():
            shutil.copytree(REPOSITORY / room / name, folder / name, ignore=ignored)

    @property
    def path(self) -> str:
        return str(self.folder)

    def change(self, changes: Mapping[str, Mapping[str, str]]) -> Build:
        """Replace texts in files, as an installation does it: by new files in the place of the old ones."""
        for name, texts in changes.items():
            file = self.folder / name
            source = file.read_text(encoding="utf-8")
            for old, new in texts.items():
                assert old in source, f"{name} holds no {old!r}"
                source = source.replace(old, new)
            fresh = file.with_suffix(".new")
            fresh.write_text(source, encoding="utf-8")
            os.replace(fresh, file)
        return self

    def speak(self, protocol: str) -> Build:
        """Speak this version of the protocol and no other."""
        return self.change(
            {
                "hermes_local/__init__.py": {'PROTOCOL_VERSIONS = ("1.0",)': f'PROTOCOL_VERSIONS = ("{protocol}",)'},
                "hermes_protocol/__init__.py": {'PROTOCOL_VERSION = "1.0"': f'PROTOCOL_VERSION = "{protocol}"'},
            }
        )

    def upgrade(self, old: str, new: str) -> Build:
        """Become another version of the program. The file that a build is known by is replaced as well."""
        return self.change(
            {
                "hermes_local/__init__.py": {f'__version__ = "{old}"': f'__version__ = "{new}"'},
                "hermes_daemon/assemble.py": {'"""The one place': '"""This is the one place'},
            }
        )
