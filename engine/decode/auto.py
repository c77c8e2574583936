"""The fastest mode for this very response: running figures of each, the others tried now and then.

All modes leave the same committed state, so a change at a block boundary costs nothing but a slower trial. Trials are
kept cheap: a causal one is a few tokens; a block is given up (a preview commits nothing) as soon as its first passes
show that it is slower than what is at hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.decode.autoregressive import AutoregressiveDecoder
from engine.decode.diffusion import DiffusionDecoder
from engine.decode.run import Decoder, Run, Step
from engine.decode.speculative import SpeculativeDecoder

FIRST = "speculative"
MODES = (FIRST, "autoregressive", "diffusion")
TURN_TOKENS = {"speculative": 1, "autoregressive": 3, "diffusion": 1}  # least tokens of a turn; whole blocks anyway
KEEP = 0.7  # weight of a mode's earlier figures at each of its turns
RETRY_TOKENS = 96  # until a mode that lost is tried again; doubled at each loss
PROBE_PASSES = 2  # previews of a trial block before it may be given up
GIVE_UP = 0.75  # of the best mode's speed


@dataclass
class Figures:
    """A mode's recent tokens and seconds, and when it may be tried again (response length)."""

    tokens: float = 0.0
    seconds: float = 0.0
    retry_at: int = 0
    wait: int = RETRY_TOKENS

    @property
    def rate(self) -> float:
        """Tokens per second; 0.0 where nothing is known."""
        return self.tokens / self.seconds if self.seconds else 0.0


class AutoDecoder:
    """Runs one of the other decoders at a time. first: the mode to begin with."""

    def __init__(self, run: Run, first: str = FIRST, clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._clock = run, clock
        self._diffusion = DiffusionDecoder(run)
        self._decoders: dict[str, Decoder] = {
            "speculative": SpeculativeDecoder(run),
            "autoregressive": AutoregressiveDecoder(run),
            "diffusion": self._diffusion,
        }
        self._figures = {mode: Figures() for mode in MODES}
        self._mode, self._tokens, self._seconds, self._passes = first, 0, 0.0, 0

    @property
    def best(self) -> str:
        """The fastest mode so far."""
        fastest = max(MODES, key=lambda mode: self._figures[mode].rate)
        return fastest if self._figures[fastest].rate else self._mode

    def step(self) -> Step:
        """One step of the current mode."""
        if not self._diffusion.in_block and self._tokens >= TURN_TOKENS[self._mode]:
            self._settle()
            self._choose()
        started = self._clock()
        step = self._decoders[self._mode].step()
        if step.passes + step.commits:  # forced tokens tell nothing about a mode
            self._seconds += self._clock() - started
            self._tokens += len(step.tokens)
            self._passes += step.passes
        if self._hopeless():
            self._tokens = max(self._diffusion.fixed, 1)
            self._settle()
            self._diffusion.give_up()
            self._choose()
        return replace(step, mode=self._mode if step.tokens else "")

    def _settle(self) -> None:
        """Enter the turn's figures; push a mode that lost further into the future."""
        figures = self._figures[self._mode]
        figures.tokens = KEEP * figures.tokens + self._tokens
        figures.seconds = KEEP * figures.seconds + self._seconds
        self._tokens, self._seconds, self._passes = 0, 0.0, 0
        if self.best != self._mode:
            figures.retry_at = len(self._run.response) + figures.wait
            figures.wait *= 2

    def _choose(self) -> None:
        due = [m for m in MODES if m != self.best and len(self._run.response) >= self._figures[m].retry_at]
        self._mode = min(due, key=lambda mode: self._figures[mode].retry_at) if due else self.best

    def _hopeless(self) -> bool:
        """A trial block that is clearly slower than the best mode."""
        best = self._figures[self.best]
        if not self._diffusion.in_block or self.best == "diffusion" or self._passes < PROBE_PASSES or not best.rate:
            return False
        return self._diffusion.fixed < GIVE_UP * best.rate * self._seconds
