"""The loop guard: notices a response that goes in circles, presses for its end, and at last ends it.

Three signs, all at token level, with limits that ordinary text (repeated lines of code, tables) stays below:

- repeated n-grams: the last tokens equal those `lag` places before them, for a long run;
- near-identical lines: the same with a few tokens that differ (a counter, a name) each costing what 12 agreeing gain;
- thinking in circles: most of the last n-grams of the think section stood in it before.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from engine.decode.controls import Controls, Ending
from engine.generation_config import NO_RAMP, Ramp

MAX_LAG = 256  # longest period looked for, tokens
REPEATED, REPEATED_TIMES = 160, 3  # exact repetition: at least so many tokens, and so many further rounds
SIMILAR, SIMILAR_TIMES, MISMATCH_COST = 384, 6, 12  # the same for near repetition
NGRAM, WINDOW, FAMILIAR = 12, 512, 0.75  # circles: this share of the window's n-grams is old
PRESS_STRENGTH, PRESS_WINDOW = 40.0, 64  # ramp that presses for the end: logits, tokens until it is at its full
PATIENCE = 128  # tokens from the first pressing to the end of the response


class LoopGuard:
    """Watches one response. thinking: it starts inside a think section that `think_end` closes."""

    def __init__(self, *, thinking: bool, think_end: int | None) -> None:
        self._thinking, self._think_end = thinking, think_end
        self._length = 0
        self._pressing: Ending | None = None
        self._since = 0
        self._forget()

    def _forget(self) -> None:
        self._last = np.full(MAX_LAG, -1, dtype=np.int64)  # newest last
        self._runs = np.zeros(MAX_LAG, dtype=np.int64)  # by lag, longest first
        self._scores = np.zeros(MAX_LAG, dtype=np.int64)
        self._ngram: deque[int] = deque(maxlen=NGRAM)
        self._seen: set[tuple[int, ...]] = set()
        self._old: deque[bool] = deque(maxlen=WINDOW)
        self._familiar = 0

    def watch(self, token: int, controls: Controls) -> tuple[bool, bool]:
        """Look at the next token of the response.

        Returns whether picks made for what follows it stand: not where the guard changed the controls. And whether the
        response ends here.
        """
        self._length += 1
        looping = self._looks_circular(token)
        if self._thinking and token == self._think_end:
            self._thinking = looping = False
            self._forget()
        if self._pressing is None:
            if not looping:
                return True, False
            self._pressing, self._since = "thinking" if self._thinking else "response", self._length
            controls.end(self._pressing, Ramp(PRESS_STRENGTH, self._length, PRESS_WINDOW))
            return False, False
        if not looping:
            controls.end(self._pressing, NO_RAMP)
            self._pressing = None
            return False, False
        return True, self._length - self._since >= PATIENCE

    def _looks_circular(self, token: int) -> bool:
        same = self._last == token
        self._runs = np.where(same, self._runs + 1, 0)
        self._scores = np.where(same, self._scores + 1, np.maximum(self._scores - MISMATCH_COST, 0))
        self._last[:-1] = self._last[1:]
        self._last[-1] = token
        circular = bool((self._runs >= _REPEATED).any() or (self._scores >= _SIMILAR).any())
        return self._thinks_in_circles(token) or circular

    def _thinks_in_circles(self, token: int) -> bool:
        if not self._thinking:
            return False
        self._ngram.append(token)
        gram = tuple(self._ngram)
        old = gram in self._seen
        self._seen.add(gram)
        if len(self._old) == WINDOW:
            self._familiar -= self._old[0]
        self._old.append(old)
        self._familiar += old
        return self._familiar >= FAMILIAR * WINDOW


_LAGS = np.arange(MAX_LAG, 0, -1)  # element i of the guard's arrays belongs to this lag
_REPEATED = np.maximum(REPEATED, REPEATED_TIMES * _LAGS)
_SIMILAR = np.maximum(SIMILAR, SIMILAR_TIMES * _LAGS)
