"""Plain causal decoding: one token a pass, with the same controls as the other modes."""

from __future__ import annotations

from engine.decode.run import Run, Step
from engine.decode.sampling import pick


class AutoregressiveDecoder:
    """Each step commits the token before (one causal pass) and picks the next."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def step(self) -> Step:
        """One token."""
        run = self._run
        logits, commits = run.next_logits()
        scores = run.controls.apply(logits, run.tensor([len(run.response) + 1]))
        ids, confidence = pick(scores, run.settings, run.generator)
        tokens, finish = run.accept(ids.tolist())
        return Step(tokens, tuple(confidence.tolist()), None, finish, commits=commits)
