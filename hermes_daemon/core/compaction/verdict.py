"""Whether a model's summary may take the place of what it summarizes."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from hermes_daemon.core.window import text_tokens

Fault: TypeAlias = Literal["empty", "cut_off", "refusal", "echo", "too_long", "unreachable"]

_REFUSAL = re.compile(
    r"(?i)\b(?:i(?:['’]m| am)? (?:sorry|unable|not able)|i (?:can(?:not|['’]t)|won['’]t|must decline)|as an ai\b|"
    r"(?:je ne peux pas|ich kann (?:das|dabei|dir|ihnen)?\s?(?:leider )?nicht|no puedo ayudar)|"
    r"抱歉|对不起|无法(?:提供|协助))"
)
_REFUSAL_CHARS = 600
_ECHO_SHARE = 0.7
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_TAGS = re.compile(r"\A<summary>\s*(.*?)\s*</summary>\Z", re.DOTALL)


def cleaned(text: str) -> str:
    """The summary without what models wrap around it: thoughts, a code fence, the tags of the prompt."""
    text = _THOUGHT.sub("", text).strip()
    for wrapping in (_FENCE, _TAGS):
        if match := wrapping.match(text):
            text = match[1].strip()
    return text


def fault(text: str, finish: str, *, previous: str, new: str, most: int) -> Fault | None:
    """What is wrong with a cleaned summary of `previous` and `new`, None when it may be used.

    `finish` is the model's reason to stop; `length` means that the end is missing. An echo gives the material back
    word by word: most of the text is one piece of it, or all of `new` stands in it, and it is not much shorter. `most`
    is the largest size in tokens, with a quarter of grace for estimates.
    """
    if finish == "length":
        return "cut_off"
    if not text:
        return "empty"
    if (
        len(text) < _REFUSAL_CHARS
        and _REFUSAL.search(text[:200])
        and not text.lstrip().startswith(("#", "-", "*", "1."))
    ):
        return "refusal"
    if _is_echo(text, previous, new):
        return "echo"
    return "too_long" if text_tokens(text) > most * 1.25 else None


def _is_echo(text: str, previous: str, new: str) -> bool:
    said, old, fresh = (" ".join(part.split()) for part in (text, previous, new))
    whole = f"{old} {fresh}".strip()
    if not fresh:  # a defrag that came back as it went in is merely useless, which its caller weighs
        return False
    if fresh in said:
        return True
    return len(said) >= _ECHO_SHARE * len(whole) and (said in whole or whole.startswith(said[: int(len(whole) * 0.5)]))
