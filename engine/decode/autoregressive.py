"""Plain causal decoding: one token a pass, with the same controls as the other modes."""

from __future__ import annotations

from engine.decode.run import Run, Step
from engine.decode.sampling import pick


class AutoregressiveDecoder:
    """Each step commits what came before (one causal pass) and picks the next token."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def step(self) -> Step:
        """One token, or all that are forced."""
        run = self._run
        forced = run.take_forced()
        if forced is not None:
            return forced
        logits, commits = run.next_logits()
        masks = [run.grammar.mask()] if run.grammar is not None else []
        scores = run.controls.apply(logits, run.tensor([len(run.response) + 1]), masks=masks)
        ids, confidence = pick(scores, run.settings, run.generator)
        tokens, finish = run.accept(ids.tolist())
        return Step(tokens, tuple(confidence.tolist()), None, finish, commits=commits)
