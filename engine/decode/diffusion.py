"""Block diffusion: previews fill a block of masks, a causal pass commits it.

Rules: clover reference, section 6 (the release's `denoise`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.decode.run import Run, Step
from engine.decode.sampling import pick
from engine.events import BlockUpdate


class DiffusionDecoder:
    """Each step previews the current block once and fixes every row whose confidence exceeds the threshold."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._mask = run.settings.controls.mask_token_id
        self._block_index = -1
        self._open_block()

    def _open_block(self) -> None:
        size = self._run.settings.block_size
        self._tokens = [self._mask] * size
        self._confidence = [0.0] * size
        self._open = list(range(size))
        self._block_index += 1
        self._pass_index = 0

    def step(self) -> Step:
        """One preview, after the commit of the block before it where there is one."""
        run = self._run
        commits = run.advance()
        logits = run.model.preview(run.tensor(self._tokens), run.state)
        rows = run.tensor(self._open)
        fixed = [token for token in self._tokens if token != self._mask]
        scores = run.controls.apply(logits[rows], len(run.response) + rows + 1, fixed)
        ids, confidence = pick(scores, run.settings, run.generator)
        self._fix(ids, confidence)
        update = BlockUpdate(self._block_index, self._pass_index, tuple(self._tokens), tuple(self._confidence))
        self._pass_index += 1
        if not self._resolved():
            return Step(update=update, passes=1, commits=commits)
        tokens, finish = run.accept(self._tokens)
        kept = tuple(self._confidence[: len(tokens)])
        if not finish:
            self._open_block()
        return Step(tokens, kept, update, finish, passes=1, commits=commits)

    def _fix(self, ids: Tensor, confidence: Tensor) -> None:
        chosen = confidence > self._run.settings.threshold
        if not bool(chosen.any()):
            chosen = torch.zeros_like(chosen)
            chosen[confidence.argmax()] = True
        triples = zip(self._open, ids.tolist(), confidence.tolist(), chosen.tolist(), strict=True)
        still_open = []
        for row, token, probability, is_chosen in triples:
            if is_chosen:
                self._tokens[row], self._confidence[row] = token, probability
            else:
                still_open.append(row)
        self._open = still_open

    def _resolved(self) -> bool:
        """All rows are fixed, or (early exit) all those that can still reach the text."""
        if not self._open or not self._run.settings.early_exit:
            return not self._open
        done = self._tokens[: self._open[0]]
        return len(done) >= self._run.room or any(token in self._run.settings.controls.stop_ids for token in done)
