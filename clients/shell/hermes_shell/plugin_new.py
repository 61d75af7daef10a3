"""`hermes plugins new`: a plugin that works from its first minute, in the shape its author knows."""

from __future__ import annotations

import os
import re
from typing import Any

from hermes_local.address import Address, ensure_home
from hermes_shell.failures import Failed
from hermes_shell.plugin_texts import FILES, MANIFEST, README

Given = dict[str, Any]
NAME = re.compile(r"^[a-z0-9][a-z0-9_-]{0,63}$")


def run(given: Given, address: Address) -> int:
    """Write the folder and say what to do next."""
    name, style = given["name"], given["style"] or "hermes"
    if not NAME.match(name):
        raise Failed(f"the name {name!r}: expected small letters, digits, `-` and `_`, a letter or digit first", 2)
    id = name.replace("_", "-")
    module = name.replace("-", "_")
    above = os.path.abspath(given["in"]) if given["in"] else f"{address.home}/plugins"
    folder = f"{above}/{module}"
    if os.path.lexists(folder):
        raise Failed(f"{folder} is there already")
    if not given["in"]:
        ensure_home(address)
    os.makedirs(folder)
    about, manifest, code, test = FILES[style]
    words = {"@ID@": id, "@MODULE@": module, "@ABOUT@": about}
    files = {
        "plugin.yaml": MANIFEST + manifest,
        "plugin.py": code,
        "README.md": README,
        f"test_{module}.py": test,
    }
    for file_name, text in files.items():
        for mark, word in words.items():
            text = text.replace(mark, word)
        with open(f"{folder}/{file_name}", "x", encoding="utf-8") as file:
            file.write(text)
    print(folder)
    print(f"try it:  hermes plugins validate {folder} --run")
    print(f"test it: python -m pytest {folder}")
    if given["in"]:
        print(f"use it:  move it to {address.home}/plugins, then hermes plugins enable {id}")
    else:
        print(f"use it:  hermes plugins enable {id}")
    return 0
