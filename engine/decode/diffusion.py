"""Block diffusion: previews fill a block of masks, a causal pass commits it.

Rules: clover reference, section 6 (the release's `denoise`). Under a grammar, rows fill out of order all the same: the
frontier (the first open row) picks among exactly the ids that may follow; what a row behind a hole picks is
provisional, and opened again where the grammar, once it arrives there, refuses it. What the grammar forces is written
without a pass. The block is resolved only when the grammar has consumed all of it, so each pass fixes a row for good
or one that is refused at most once: a block takes at most twice its size in passes.
"""

from __future__ import annotations

import bisect

import torch
from torch import Tensor

from engine.decode.constraint import Cursor
from engine.decode.run import Run, Step
from engine.decode.sampling import pick
from engine.events import BlockUpdate


class DiffusionDecoder:
    """Each step previews the current block once and fixes every row whose confidence exceeds the threshold."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._mask = run.settings.controls.mask_token_id
        self._block_index = -1
        self._tokens: list[int] = []

    def _open_block(self) -> None:
        run, size = self._run, self._run.settings.block_size
        self._tokens = [self._mask] * size
        self._confidence = [0.0] * size
        self._open = list(range(size))
        self._block_index += 1
        self._pass_index = 0
        self._frontier = 0  # rows in front of it were consumed by the grammar
        self._cursor: Cursor | None = run.grammar.fork() if run.grammar is not None else None
        self._walk()

    def step(self) -> Step:
        """One preview, after the commit of the block before it where there is one."""
        run = self._run
        if not self._tokens:
            # under a grammar they are the block's own first rows
            forced = run.take_forced() if run.grammar is None or run.closing else None
            if forced is not None:
                return forced
            self._open_block()
            if self._resolved():
                return self._close(0, 0)
        commits = run.advance()
        logits = run.model.preview(run.tensor(self._tokens), run.state, run.settings.coreset_top_p)
        rows = run.tensor(self._open)
        fixed = [token for token in self._tokens if token != self._mask]
        masks = [self._cursor.mask()] if self._cursor is not None else []
        scores = run.controls.apply(logits[rows], len(run.response) + rows + 1, fixed, masks=masks)
        ids, confidence = pick(scores, run.settings, run.generator)
        self._fix(ids, confidence)
        self._walk()
        if self._resolved():
            return self._close(1, commits)
        return Step(update=self._update(), passes=1, commits=commits)

    @property
    def in_block(self) -> bool:
        """Whether a block is open."""
        return bool(self._tokens)

    @property
    def fixed(self) -> int:
        """Rows of the open block that are fixed."""
        return len(self._tokens) - len(self._open) if self._tokens else 0

    def give_up(self) -> None:
        """Forget the open block. Nothing of it was committed."""
        self._tokens = []

    def _update(self) -> BlockUpdate:
        update = BlockUpdate(self._block_index, self._pass_index, tuple(self._tokens), tuple(self._confidence))
        self._pass_index += 1
        return update

    def _close(self, passes: int, commits: int) -> Step:
        run, update = self._run, self._update()
        rows = self._open[0] if self._open else len(self._tokens)
        tokens, finish = run.accept(self._tokens[:rows])
        kept = tuple(self._confidence[: len(tokens)])
        self._tokens = []
        return Step(tokens, kept, update, finish, passes=passes, commits=commits)

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

    def _walk(self) -> None:
        """Lead the grammar over the fixed rows behind the frontier; write what it forces, open what it refuses."""
        cursor = self._cursor
        while cursor is not None and self._frontier < len(self._tokens) and not self._stopped():
            row = self._frontier
            must = self._must(cursor)
            if must:
                if self._tokens[row] != must[0]:
                    self._tokens[row], self._confidence[row] = must[0], 1.0
                if row in self._open:
                    self._open.remove(row)
            if self._tokens[row] == self._mask:
                return
            if not cursor.consume(self._tokens[row]):
                self._tokens[row], self._confidence[row] = self._mask, 0.0
                bisect.insort(self._open, row)
                return
            self._frontier += 1

    def _must(self, cursor: Cursor) -> list[int]:
        """What has to stand at the frontier: at a block's start the end of thinking at its budget, else the grammar's
        own."""
        if self._frontier == 0 and self._run.forced():
            return self._run.forced()[:1]
        return cursor.forced()

    def _stopped(self) -> bool:
        stops = self._run.settings.controls.stop_ids
        return self._cursor is not None and self._frontier > 0 and self._tokens[self._frontier - 1] in stops

    def _resolved(self) -> bool:
        """All rows are fixed, or (early exit) all those that can still reach the text."""
        if not self._open or self._stopped():
            return True
        if not self._run.settings.early_exit:
            return False
        return self._run.cut(self._tokens[: self._open[0]])[2]
