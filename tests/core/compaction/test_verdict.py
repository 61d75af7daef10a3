from __future__ import annotations

import pytest

from hermes_daemon.core.compaction.verdict import cleaned, fault

NEW = "USER: look at shard 4\n\nASSISTANT: Shard 4 is done: ticket OPS-5104 was opened for it, the column is empty."
OLD = "- Shards 1 to 3 are done."


def judge(text: str, finish: str = "stop", most: int = 200) -> str | None:
    return fault(cleaned(text), finish, previous=OLD, new=NEW, most=most)


@pytest.mark.parametrize(
    "text", ["- Shards 1 to 4 are done; ticket OPS-5104.", "# Done\nI can't merge yet: tests fail."]
)
def test_a_summary_passes(text: str) -> None:
    assert judge(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.", "I cannot assist with this request.", "As an AI, I have no view.",
        "Ich kann dabei leider nicht helfen.", "抱歉，我无法提供帮助。",
    ],
)  # fmt: skip
def test_a_refusal_is_not_a_summary(text: str) -> None:
    assert judge(text) == "refusal"


def test_every_other_fault_has_its_name() -> None:
    assert judge("") == "empty"
    assert judge("<think>what now</think>") == "empty"
    assert judge("- Shards 1 to 4", finish="length") == "cut_off"
    assert judge(f"{OLD}\n{NEW}") == "echo"
    assert judge(f"Here it is:\n{NEW}") == "echo"
    assert judge("- a line\n" * 400) == "too_long"


def test_what_models_wrap_around_a_summary_is_taken_off() -> None:
    assert cleaned("```markdown\n- done\n```") == "- done"
    assert cleaned("<thinking>hm</thinking><summary>\n- done\n</summary>") == "- done"
