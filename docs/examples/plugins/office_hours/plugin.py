"""A round that is answered here sends no request: the answer is kept with the name of who gave it."""

from collections.abc import Callable

from hermes_daemon.api import Answer, PluginContext, Question, replace


def register(ctx: PluginContext) -> None:
    answers = {question.lower(): answer for question, answer in ctx.get_config("answers").items()}

    async def answer(question: Question, next: Callable[[Question], Question]) -> Question | None:
        known = answers.get(question.user_text.strip().lower())
        if known is None:
            return None
        return next(replace(question, answer=Answer(({"type": "text", "text": known},), ctx.plugin_id)))

    ctx.use("beforeProviderTurn", answer)
