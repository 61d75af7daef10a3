"""What an edit changed, as a unified diff and as counts."""

from __future__ import annotations

import difflib
from typing import Literal

from hermes_protocol.events import FileChange

_MOST_LINES = 3000
_MOST_CHARACTERS = 100_000
_CONTEXT = 3


def file_change(shown: str, before: str | None, after: str) -> FileChange:
    """The change of a file, `before` None for a new one. `item_id` is empty: whoever emits the item gives it one."""
    old = [] if before is None else before.splitlines(keepends=True)
    diff, added, removed = unified(shown, old, after.splitlines(keepends=True), new_file=before is None)
    kind: Literal["created", "modified"] = "created" if before is None else "modified"
    return FileChange(
        item_id="", status="completed", created_at="", path=shown, kind=kind, diff=diff, added=added, removed=removed
    )


def unified(shown: str, old: list[str], new: list[str], *, new_file: bool = False) -> tuple[str, int, int]:
    """(diff, lines added, lines removed). Equal lines at both ends are taken off first, as a comparison of two long
    texts is quadratic; what remains too long to compare is given as replaced whole, and a long diff is cut."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    lead, tail = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    left, right = old[lead : len(old) - tail], new[lead : len(new) - tail]
    header = [f"--- {'/dev/null' if new_file else f'a/{shown}'}\n", f"+++ b/{shown}\n"]
    if max(len(left), len(right)) > _MOST_LINES:
        removed, added = len(old) - start - end, len(new) - start - end
        note = f"@@ -{start + 1},{removed} +{start + 1},{added} @@ too long to compare line by line\n"
        return "".join([*header, note]), added, removed
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=len(left) > 500)
    lines, added, removed = header, 0, 0
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        lines.append(_hunk_header(group, lead))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [_line(" ", line) for line in left[i1:i2]]
                continue
            lines += [_line("-", line) for line in left[i1:i2]]
            lines += [_line("+", line) for line in right[j1:j2]]
            removed, added = removed + i2 - i1, added + j2 - j1
    diff = "".join(lines)
    if len(diff) > _MOST_CHARACTERS:
        cut = diff.rfind("\n", 0, _MOST_CHARACTERS) + 1
        diff = diff[:cut] + f"[diff cut; {len(diff) - cut} more characters]\n"
    return diff, added, removed


def _common(left: list[str], right: list[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _hunk_header(group: list[tuple[str, int, int, int, int]], lead: int) -> str:
    i1, i2, j1, j2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
    return f"@@ -{_span(i1 + lead, i2 - i1)} +{_span(j1 + lead, j2 - j1)} @@\n"


def _span(start: int, length: int) -> str:
    """As diff writes it: an empty span names the line before it."""
    return f"{start + 1 if length else start},{length}" if length != 1 else f"{start + 1}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
