"""Markdown that is still being written: which part of it is final already.

What is final goes to the terminal's scrollback for good; only the block under construction is drawn again and again.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_LIST = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?:\s|$)")


def final_length(text: str) -> int:
    """How many characters of `text` no continuation can change the look of: whole blocks, up to the last one's start.

    A block ends at a blank line that is outside fenced code and followed by a line that does not continue it (not
    indented; behind a list, no further item). It never shrinks while `text` grows.
    """
    final = position = 0
    fence = ""
    in_list = after_blank = False
    for line in text.splitlines(keepends=True):
        complete = line.endswith("\n")
        body = line.rstrip("\n")
        if fence:
            mark = body.strip()
            if complete and len(mark) >= len(fence) and set(mark) == {fence[0]}:
                fence = ""
        elif not body.strip():
            after_blank = True
        else:
            # An unfinished line may still turn out to be another item of the list.
            decided = complete or not in_list
            if after_blank and not body[0].isspace() and decided and not (in_list and _LIST.match(body)):
                final, in_list = position, False
            opened = _FENCE.match(body)
            if opened and complete and not (opened[1][0] == "`" and "`" in opened[2]):
                fence = opened[1]
            in_list = in_list or bool(_LIST.match(body))
            after_blank = False
        position += len(line)
    return final
