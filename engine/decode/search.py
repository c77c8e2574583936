"""Replies in the order of their probability: the best one first, then those that leave it at some token, and so on.

Every next reply is made from an earlier one (its parent): the parent up to a position, another token there, and from
then on whatever the causal pass makes most likely. The alternatives at each position are read off the passes that
check the reply: what follows is drafted from text that the parent, the reply or the prompt holds already, and a pass
accepts it up to the first token that the model wants otherwise. A guide may force stretches of text and cut branches
that lead nowhere. Branching only at positions behind the parent's own branch never yields a reply twice (Lawler's
k-best scheme, 1972, with greedy completion).

Scores are natural-log probabilities of the causal head, summed over the tokens that were free to choose, plus the
log weight, at most 0, that a prior gives to what a reply settles.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.decode.run import Model

MIN_LOG_PROBABILITY = -9.0  # alternatives less likely than this at their position are not considered
BRANCHES = 6  # most likely tokens looked at per position
MAX_PASSES = 16  # for one reply; what needs more is given up
DRAFT = 40  # tokens of a draft
MAX_ANCHORS = 24  # states kept at the ends of forced text

Guide = Callable[[Sequence[int]], Sequence[int] | None]
Prior = Callable[[Sequence[int]], float]


@dataclass(frozen=True)
class Candidate:
    """A reply, its stop id included, and its score."""

    tokens: tuple[int, ...]
    score: float


@dataclass(frozen=True)
class _Choice:
    """The free choice at a position: the most likely tokens there, the first of which was taken."""

    position: int
    tokens: list[int]
    scores: list[float]


class ReplySearch:
    """The replies to one prompt. `state` holds the prompt and is not changed; `logits` [1, vocab] are its last."""

    def __init__(
        self,
        model: Model,
        prompt: Sequence[int],
        state: Any,
        logits: torch.Tensor,
        *,
        stop_ids: Sequence[int],
        banned: Sequence[int],
        limit: int,
    ) -> None:
        """limit: tokens of a reply at most. banned: ids that never occur in one (the mask)."""
        self._model, self._prompt = model, list(prompt)
        self._stop, self._banned, self._limit = frozenset(stop_ids), list(banned), limit
        self._anchors: dict[tuple[int, ...], tuple[Any, torch.Tensor]] = {(): (state, logits[-1])}
        self._heap: list[tuple[float, int, float, tuple[int, ...], tuple[int, ...]]] = []
        self._settled: set[tuple[int, ...]] = set()  # beginnings whose prior sent them back to the queue
        self._order = itertools.count()
        self.guide: Guide = lambda tokens: ()
        self.prior: Prior = lambda tokens: 0.0  # may only fall as a reply grows, and then where the guide adds text
        self.passes = 0  # causal passes so far

    def begin(self, draft: Sequence[int] = ()) -> None:
        """Start at the most likely reply; `draft` is a guess at it."""
        self._push(0.0, (), tuple(draft))

    def next(self, over: Callable[[], bool] = lambda: False) -> Candidate | None:
        """The next reply; None when there is none left, or as soon as `over()` says so."""
        while self._heap and not over():
            _, _, score, forced, parent = heapq.heappop(self._heap)
            tokens, choices = self._complete(forced, parent, over)
            for choice in choices:
                for token, value in zip(choice.tokens[1:], choice.scores[1:], strict=True):
                    if value > MIN_LOG_PROBABILITY:
                        self._push(score + value, (*tokens[: choice.position], token), tuple(tokens))
                score += choice.scores[0]
            if tokens and tokens[-1] in self._stop:
                return Candidate(tuple(tokens), score + self.prior(tokens))
            if tuple(tokens) in self._settled and tuple(tokens) != forced:
                self._push(score, tuple(tokens), parent)
        return None

    def _push(self, score: float, forced: tuple[int, ...], parent: tuple[int, ...]) -> None:
        """Queue the reply that begins with `forced`, whose free tokens have the log probability `score`."""
        heapq.heappush(self._heap, (-score - self.prior(forced), next(self._order), score, forced, parent))

    def _complete(
        self, forced: Sequence[int], parent: Sequence[int], over: Callable[[], bool]
    ) -> tuple[list[int], list[_Choice]]:
        """The reply that begins with `forced`, and its free choices behind that.

        Unfinished where it was given up, and where the prior speaks against what the guide has just settled.
        """
        tokens, choices, weight = list(forced), [], self.prior(forced)
        for _ in range(MAX_PASSES):
            if over() or len(tokens) >= self._limit:
                break
            if tokens and tokens[-1] in self._stop:
                return tokens, choices
            extra = self.guide(tokens)
            while extra is None and len(tokens) > len(forced):  # a draft went too far
                tokens.pop()
                choices = [choice for choice in choices if choice.position < len(tokens)]
                extra = self.guide(tokens)
            if extra is None:
                return [], []
            tokens.extend(extra)
            if extra and (tuple(tokens) in self._anchors or tuple(tokens) in self._settled):
                break  # this beginning is being searched already; its other beginnings are still to come
            if extra and self.prior(tokens) < weight:
                self._settled.add(tuple(tokens))
                return tokens, choices
            draft = self._draft(tokens, parent)
            start, best, ids = self._scores(tokens, draft, anchor=bool(extra) or tuple(tokens) in self._settled)
            for guess in (*draft, None):
                row = len(tokens) - start
                choices.append(_Choice(len(tokens), ids[row], best[row]))
                tokens.append(ids[row][0])
                if tokens[-1] != guess or tokens[-1] in self._stop:
                    break
        if tokens and tokens[-1] in self._stop:
            return tokens, choices
        return [*tokens, *self._banned[:1]], choices  # no stop id at the end: not a reply

    @torch.inference_mode()
    def _scores(
        self, tokens: list[int], draft: list[int], *, anchor: bool
    ) -> tuple[int, list[list[float]], list[list[int]]]:
        """Log probabilities and ids [rows, BRANCHES] of the most likely tokens at positions start, start + 1, ...,
        len(tokens + draft); and start, which is at most len(tokens)."""
        known = max((key for key in self._anchors if tuple(tokens[: len(key)]) == key), key=len)
        state, last = self._anchors[known]
        state, rows, start = state.clone(), [last[None]], len(known)
        if anchor and len(tokens) > start:
            rows.append(self._read(tokens[start:], state))
            if len(self._anchors) > MAX_ANCHORS:
                self._anchors.pop(next(key for key in self._anchors if key))
            self._anchors[tuple(tokens)] = (state.clone(), rows[-1][-1])
            rest = draft
        else:
            rest = [*tokens[start:], *draft]
        if rest:
            rows.append(self._read(rest, state))
        scores = torch.cat(rows).float().clone()
        scores[:, self._banned] = -torch.inf
        best, ids = scores.log_softmax(-1).topk(BRANCHES, dim=-1)
        return start, best.tolist(), ids.tolist()

    def _read(self, tokens: Sequence[int], state: Any) -> torch.Tensor:
        self.passes += 1
        logits = self._model.causal(torch.tensor(list(tokens), device=self._anchors[()][1].device), state, "all")
        assert logits is not None
        return logits

    def _draft(self, tokens: list[int], parent: Sequence[int]) -> list[int]:
        """What followed the last two tokens when they last stood in parent, reply or prompt, in this order."""
        if len(tokens) < 2:
            return list(parent[len(tokens) : len(tokens) + DRAFT]) if not tokens else []
        first, second = tokens[-2:]
        for source in (parent, tokens[:-1], self._prompt):
            for at in range(len(source) - 2, 0, -1):
                if source[at] == second and source[at - 1] == first:
                    return list(source[at + 1 : at + 1 + DRAFT])
        return []
