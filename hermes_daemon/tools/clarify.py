"""clarify: the model asks the people who follow the session, and reads what they said to each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from hermes_daemon.core.ports import Answered, Ask, Rejected, ToolContext, ToolOutcome
from hermes_daemon.tools.registry import FunctionTool
from hermes_protocol.events import ClarifyAnswer, Question, QuestionStatus

MOST_QUESTIONS = 5
MOST_CHOICES = 10
Words = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]

_ENDINGS = {
    "policy": "Nobody was there who could answer, or everyone declined.",
    "declined": "The question was declined.",
    "timeout": "The time for answers is over.",
}
_GO_ON = "Go on with what you know, and say which assumptions you made; do not ask the same again at once."


class ClarifyQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question. People may always answer in their own words instead of a choice."""

    question: Words
    choices: Annotated[tuple[Words, ...], msgspec.Meta(max_length=MOST_CHOICES)] = ()
    multi: bool = False


def clarify_tool() -> FunctionTool:
    """The tool."""

    async def clarify(
        ctx: ToolContext,
        questions: Annotated[list[ClarifyQuestion], msgspec.Meta(min_length=1, max_length=MOST_QUESTIONS)],
    ) -> ToolOutcome:
        """Ask the user up to five questions at once and wait for the answers.

        Use it when the answer changes what you would do and you cannot find it out yourself. Offer `choices` where
        there are few sensible answers, the best first; `multi` lets the user take several. The result says of every
        question what was answered, or that it was skipped or not answered in time.

        Args:
            questions: what to ask, each with `question` and, where it helps, `choices` and `multi`
        """
        asked = msgspec.convert(questions, list[ClarifyQuestion])
        _expect_sense(asked)
        shown = tuple(
            Question(f"q{number}", one.question, one.choices, one.multi) for number, one in enumerate(asked, 1)
        )
        return _outcome(asked, await ctx.ask(Ask("clarify", shown)))

    return FunctionTool(clarify, title=_title, toolset="clarify", read_only=True)


def _expect_sense(asked: Sequence[ClarifyQuestion]) -> None:
    for index, one in enumerate(asked):
        path = f"$.questions[{index}]"
        if len(set(one.choices)) != len(one.choices):
            raise Rejected("the same choice is there twice", f"{path}.choices")
        if one.multi and not one.choices:
            raise Rejected("several can be taken only where there are choices", f"{path}.multi")


def _title(args: Mapping[str, Any]) -> str:
    first, *more = args["questions"]
    line = str(first["question"]).strip().partition("\n")[0]
    return f"Ask: {line}" + (f" (and {len(more)} more)" if more else "")


def _outcome(asked: Sequence[ClarifyQuestion], answered: Answered) -> ToolOutcome:
    statuses = {one.id: one for one in answered.answers}
    lines: list[str] = []
    for number, one in enumerate(asked, 1):
        lines += [f"{number}. {one.question}", f"   {_said(statuses.get(f'q{number}'))}"]
    if answered.outcome == "answered":
        return ToolOutcome("\n".join(lines))
    none = all(one.status not in ("answered", "skipped") for one in answered.answers)
    return ToolOutcome("\n".join([*lines, f"[{_ENDINGS.get(answered.outcome, answered.outcome)} {_GO_ON}]"]), none)


def _said(status: QuestionStatus | None) -> str:
    if status is None or status.status == "open":
        return "not answered"
    if status.status == "timed_out":
        return "not answered in time"
    if status.status == "skipped" or status.answer is None:
        return "skipped by the user"
    return f"answered: {_words(status.answer)}"


def _words(answer: ClarifyAnswer) -> str:
    if answer.choices is not None:
        return "; ".join(answer.choices)
    return answer.choice if answer.choice is not None else (answer.text or "").strip()
