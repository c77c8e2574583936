"""Self-speculative decoding: a preview drafts, one causal pass checks all drafts and keeps those that hold.

Rules: clover reference, section 9 (the vendor's draft-self). Acceptance "exact" takes a draft only where the causal
pass would have picked it, with the drafts before it counted as response; at a temperature, by the acceptance rule of
speculative sampling (Leviathan et al., 2023), which keeps the causal distribution. "typical" is the vendor's rule:
p >= min(ratio, delta * exp(-entropy)), lossy, with counts that stand still within a round.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.decode.run import Run, Step
from engine.decode.sampling import confidence, distribution, draw, pick


class SpeculativeDecoder:
    """Each step is one round: [pending, masks] previewed, [pending, drafts] verified, the state moved to the row
    before the first token that was not drafted, or not accepted."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def step(self) -> Step:
        """One round; one token without a pass where the logits are at hand; or all tokens that are forced."""
        run = self._run
        forced = run.take_forced()
        if forced is not None:
            return forced
        if not run.pending:
            return self._first()
        commits = 0
        if len(run.pending) >= run.settings.draft_width:  # a block of another mode, or a long forced text
            last = run.pending.pop()
            commits = run.advance()
            run.pending = [last]
        drafts, guess = self._draft()
        logits, landing = run.model.verify(run.tensor([*run.pending, *drafts]), run.state)
        logits = logits[len(run.pending) - 1 :]
        wanted, sureness, accepted = self._judge(logits, drafts, guess)
        known = len(run.pending)
        tokens, finish = run.accept(wanted)
        run.landed(landing, known + len(tokens) - 1)
        return Step(
            tokens,
            tuple(sureness[: len(tokens)]),
            finish=finish,
            passes=1 if drafts else 0,
            commits=commits + 1,
            drafted=len(drafts),
            accepted=min(accepted, len(tokens)),
        )

    def _first(self) -> Step:
        run = self._run
        logits, commits = run.next_logits()
        masks = [run.grammar.mask()] if run.grammar is not None else []
        scores = run.controls.apply(logits, run.tensor([len(run.response) + 1]), masks=masks)
        ids, sureness = pick(scores, run.settings, run.generator)
        tokens, finish = run.accept(ids.tolist())
        return Step(tokens, tuple(sureness.tolist()), finish=finish, commits=commits)

    def _draft(self) -> tuple[list[int], Tensor | None]:
        """Guesses at what follows the pending ids, and the probabilities [drafts, vocab] that they were drawn from
        where that matters."""
        run, known = self._run, len(self._run.pending)
        width = run.settings.draft_width
        while width > 1 and width > run.room + known - 1:
            width //= 2
        count = width - known
        if count < 1:
            return [], None
        mask = run.settings.controls.mask_token_id
        block = run.tensor([*run.pending, *[mask] * count])
        logits = run.model.preview(block, run.state, run.settings.coreset_top_p)[known:]
        positions = len(run.response) + 1 + torch.arange(count, device=run.device)
        masks = [run.grammar.mask()] if run.grammar is not None else []
        scores = run.controls.apply(logits, positions, masks=masks)
        if run.settings.temperature == 0 or run.settings.acceptance == "typical":
            return scores.argmax(dim=-1).tolist(), None
        guess = distribution(scores, run.settings)
        return draw(guess, run.generator).tolist(), guess

    def _judge(self, logits: Tensor, drafts: list[int], guess: Tensor | None) -> tuple[list[int], list[float], int]:
        """The ids that come out of a round (the accepted drafts and one more), the confidence of each, and how many
        drafts were accepted; from raw `logits` [1 + drafts, vocab]."""
        run, settings = self._run, self._run.settings
        masks, count = self._masks(drafts)
        # Behind a draft that breaks the grammar nothing can be accepted; what was drafted there still counts below.
        logits, drafts, guess = logits[: count + 1], drafts[:count], guess[: count + 1] if guess is not None else None
        typical = settings.acceptance == "typical"
        positions = len(run.response) + 1 + torch.arange(logits.shape[0], device=run.device)
        scores = run.controls.apply(logits, positions, drafts=() if typical else drafts, masks=masks)
        given = run.tensor(drafts)
        if typical:
            taken = self._typical(scores[: len(drafts)], given)
            count = _leading(taken)
            ids, _ = pick(scores[count : count + 1], settings, run.generator)
        elif guess is None:
            best = scores.argmax(dim=-1)
            count = _leading(best[: len(drafts)] == given)
            ids = best[count : count + 1]
        else:
            count, ids = self._sampled(distribution(scores, settings), guess, given)
        out = torch.cat((given[:count], ids))
        return out.tolist(), confidence(scores[: count + 1], out).tolist(), count

    def _typical(self, scores: Tensor, drafts: Tensor) -> Tensor:
        """[drafts] bool: the vendor's rule for each."""
        logs = scores.log_softmax(dim=-1)
        p = logs.exp()
        entropy = -(p * logs.masked_fill(p == 0, 0.0)).sum(dim=-1)
        drafted = p.gather(-1, drafts[:, None]).squeeze(-1)
        least = (self._run.settings.typical_delta * (-entropy).exp()).clamp(max=self._run.settings.typical_ratio)
        return (drafted >= least) & (drafted > 0)

    def _sampled(self, p: Tensor, q: Tensor, drafts: Tensor) -> tuple[int, Tensor]:
        """Accept draft x with probability min(1, p(x) / q(x)); behind the last accepted one draw from what q leaves
        of p. p: [1 + drafts, vocab]; q: [drafts or more, vocab], what each draft was drawn from."""
        chances = torch.rand(len(drafts), generator=self._run.generator, device=drafts.device)
        rows = torch.arange(len(drafts), device=drafts.device)
        count = _leading(chances * q[rows, drafts] < p[rows, drafts])
        rest = p[count]
        if count < q.shape[0]:
            left = (rest - q[count]).clamp(min=0)
            rest = left if bool(left.sum() > 0) else rest
        return count, draw(rest[None], self._run.generator)

    def _masks(self, drafts: list[int]) -> tuple[list[Tensor], int]:
        """What may stand at the rows, each behind the drafts before it, and how many drafts the grammar lets pass."""
        grammar = self._run.grammar
        if grammar is None:
            return [], len(drafts)
        cursor = grammar.fork()
        masks = [cursor.mask()]
        for count, token in enumerate(drafts):
            if not cursor.consume(token):
                return masks, count
            if token in self._run.settings.controls.stop_ids:
                return masks, count + 1
            masks.append(cursor.mask())
        return masks, len(drafts)


def _leading(taken: Tensor) -> int:
    """How many true values `taken` [n] begins with."""
    return int(taken.long().cumprod(0).sum())
