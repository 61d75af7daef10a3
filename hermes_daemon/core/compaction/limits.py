"""The numbers of compaction for one model: settings and a window become tokens."""

from __future__ import annotations

import msgspec

from hermes_daemon.core.settings import CompressionSettings
from hermes_daemon.core.window import input_room

LARGE_WINDOW = 512_000
SMALL_WINDOW_SHARE = 0.75
LEAST_MARKER, MARKER_SHARE, MARKER_GROWTH = 4_000, 0.03, 15
INDEX_SHARE, LEAST_INDEX, MOST_INDEX = 0.7, 2_800, 6_000
RECLAIM_CEILING, RECLAIM_SHARE = 12_000, 0.09
SEED_SUMMARY = 1_500


class Limits(msgspec.Struct, frozen=True):
    """All sizes are raw token estimates, as rows carry them (divide a model's real figures by its calibration first).

    `threshold`: a batch pass is due. `tail`: newest rows no pass touches. `head_rows`: opening rows that are kept
    whatever happens, at least up to the first user row. `gate`: what a micro pass must give back (0: one exchange a
    turn). `summary_input`: most that one summarizer request may hold. `seed`: micro passes of the established kind.
    """

    window: int
    threshold: int
    tail: int
    gate: int
    summary_input: int
    head_rows: int = 0
    every_n_turns: int = 1
    defrag: int = 2_000
    seed: bool = False
    prune_trigger: int = 0
    prune_result_chars: int = 8_000
    prune_reclaim: int = 4_096
    prune_keep_rows: int = 20

    def marker(self, folded_tokens: int) -> int:
        """Most tokens of a summary that stands for so many folded ones: it may grow to twice its first size."""
        if self.seed:
            return SEED_SUMMARY
        least = max(min(LEAST_MARKER, self.window // 8), int(self.window * MARKER_SHARE))
        return min(max(least, folded_tokens // MARKER_GROWTH), 2 * least)

    def index(self, folded_tokens: int) -> int:
        """Most tokens of the identifiers beside it."""
        if self.seed:
            return 0
        share = int(self.marker(folded_tokens) * INDEX_SHARE)
        return min(max(min(LEAST_INDEX, self.window // 40), share), MOST_INDEX)

    @property
    def users(self) -> int:
        """Most tokens of user texts that a batch marker quotes."""
        return max(self.window // 12, 1_000)


def limits(settings: CompressionSettings, context_length: int, *, max_output: int | None = None,
           summary_window: int | None = None, calibration: float = 1.0) -> Limits:  # fmt: skip
    """The limits for a window of `context_length` real tokens.

    Windows below 512,000 tokens are used to at least 75 % whatever the setting says; a small window with a lower share
    would compact all the time. `summary_window` is the window of the model that writes summaries (None: the same);
    `calibration` the factor from raw estimates to the model's count.
    """
    room = input_room(context_length, max_output)
    share = settings.threshold if context_length >= LARGE_WINDOW else max(settings.threshold, SMALL_WINDOW_SHARE)
    threshold = min(int(context_length * share), room)
    if settings.threshold_tokens is not None:
        threshold = min(threshold, settings.threshold_tokens)
    tail = settings.tail_tokens or min(max(context_length // 40, 10_000), 25_000)
    least = settings.micro_compact_min_reclaim_tokens
    gate = min(RECLAIM_CEILING, int(context_length * RECLAIM_SHARE)) if least == "auto" else least
    seed = settings.micro_compact_compat == "seed"

    def raw(tokens: int) -> int:
        return max(int(tokens / calibration), 0)

    return Limits(
        window=raw(context_length),
        threshold=raw(threshold),
        tail=raw(min(tail, context_length // 5)),
        gate=0 if seed else raw(gate),
        summary_input=raw(int((summary_window or context_length) * 0.6)),
        head_rows=settings.protect_first_n,
        every_n_turns=settings.micro_compact_every_n_turns,
        defrag=settings.micro_compact_defrag_threshold_tokens,
        seed=seed,
        prune_trigger=raw(settings.proactive_prune_tokens),
        prune_result_chars=settings.proactive_prune_min_result_chars,
        prune_reclaim=raw(settings.proactive_prune_min_reclaim_tokens),
        prune_keep_rows=settings.protect_last_n,
    )
