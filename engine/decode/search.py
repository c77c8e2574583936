"""Replies in the order of their probability: the best one first, then those that leave it at some token, and so on.

Every next reply is made from an earlier one (its parent): the parent up to a position, another token there, and from
then on greedily whatever the causal pass makes most likely. The alternatives of all positions are read off one causal
pass over the parent. What follows is drafted, from the parent's own rest and from text that the prompt or the reply
holds already, and checked by further passes, so most variations cost two or three of them. Branching only behind the
forced part never yields a reply twice (Lawler's k-best scheme, 1972, with greedy completion).

Scores are natural-log probabilities of the causal head, summed up to the forced token.
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
BRANCHES = 6  # alternatives per position
MAX_PASSES = 12  # for one reply; what needs more is finished token by token
LOOK = 8  # how far the parent's rest is searched for the forced token
DRAFT = 40  # tokens of a draft that is looked up


@dataclass(frozen=True)
class Candidate:
    """A reply, its stop id included. score: log probability up to the token where it leaves its parent."""

    tokens: tuple[int, ...]
    score: float


@dataclass(frozen=True)
class _Branch:
    forced: tuple[int, ...]
    draft: tuple[int, ...]


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
        self._prompt = list(prompt)
        self._model, self._state, self._first = model, state, logits[-1]
        self._stop, self._banned, self._limit = frozenset(stop_ids), list(banned), limit
        self._heap: list[tuple[float, int, _Branch]] = []
        self._order = itertools.count()

    def begin(self, reply: Sequence[int]) -> None:
        """Give a reply that is at hand already (a greedy one, without its stop id if cut); its variations follow."""
        self._expand(tuple(reply), self._scores(reply), 0, 0.0)

    def next(self, over: Callable[[], bool] = lambda: False) -> Candidate | None:
        """The next reply; None when there is none left, or as soon as `over()` says so."""
        while self._heap and not over():
            negative, _, branch = heapq.heappop(self._heap)
            tokens = self._complete(branch, over)
            if tokens is None:
                continue
            forced = len(branch.forced)
            self._expand(tokens, self._scores(tokens), forced, -negative)
            if tokens[-1] in self._stop:
                return Candidate(tokens, -negative)
        return None

    @torch.inference_mode()
    def _scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """Log probabilities [len(tokens), vocab]; row i is for the token at i."""
        rows = self._first[None]
        if len(tokens) > 1:
            given = torch.tensor(list(tokens[:-1]), device=self._first.device)
            following = self._model.causal(given, self._state.clone(), "all")
            assert following is not None
            rows = torch.cat((rows, following))
        rows = rows.float().clone()
        rows[:, self._banned] = -torch.inf
        return rows.log_softmax(-1)

    def _expand(self, tokens: tuple[int, ...], scores: torch.Tensor, start: int, score: float) -> None:
        best, ids = scores.topk(BRANCHES, dim=-1)
        table, choices = best.tolist(), ids.tolist()
        for position in range(start, len(tokens)):
            for value, token in zip(table[position], choices[position], strict=True):
                if token != tokens[position] and value > MIN_LOG_PROBABILITY:
                    branch = _Branch((*tokens[:position], token), tokens[position:])
                    heapq.heappush(self._heap, (-(score + value), next(self._order), branch))
            score += float(scores[position, tokens[position]])

    def _complete(self, branch: _Branch, over: Callable[[], bool]) -> tuple[int, ...] | None:
        """The forced tokens and what greedily follows; the branch's draft, moved where needed, is checked in passes."""
        if branch.forced[-1] in self._stop:
            return branch.forced
        tokens = list(branch.forced)
        parent = list(branch.draft)
        at = _after(parent, tokens[-1], 0)
        draft = parent[1:] if at is None else parent[at:]
        for _ in range(MAX_PASSES):
            if over():
                return None
            wanted = self._scores([*tokens, *draft, 0]).argmax(-1).tolist()
            for token in draft:
                if token != wanted[len(tokens)]:
                    break
                tokens.append(token)
                if token in self._stop:
                    return tuple(tokens)
            tokens.append(wanted[len(tokens)])
            if tokens[-1] in self._stop or len(tokens) >= self._limit:
                return tuple(tokens)
            draft = self._draft(tokens, parent)
        return self._greedy(tokens, over)

    def _draft(self, tokens: list[int], parent: Sequence[int]) -> list[int]:
        """What followed the last two tokens when they last stood in parent, reply or prompt, in this order."""
        pair = tokens[-2:]
        for source in (parent, tokens[:-1], self._prompt):
            for at in range(len(source) - 2, 0, -1):
                if source[at] == pair[1] and source[at - 1] == pair[0]:
                    return list(source[at + 1 : at + 1 + DRAFT])
        return []

    @torch.inference_mode()
    def _greedy(self, tokens: list[int], over: Callable[[], bool]) -> tuple[int, ...] | None:
        state = self._state.clone()
        given = torch.tensor(tokens, device=self._first.device)
        while True:
            logits = self._model.causal(given, state, "last")
            assert logits is not None
            logits[:, self._banned] = -torch.inf
            token = int(logits.argmax())
            tokens.append(token)
            if token in self._stop or len(tokens) >= self._limit:
                return tuple(tokens)
            if over():
                return None
            given = torch.tensor([token], device=self._first.device)


def _after(draft: Sequence[int], token: int, at: int) -> int | None:
    """Where a draft goes on behind `token`, if it holds it soon: then the reply leaves out what stood before."""
    return next((ahead + 1 for ahead in range(at, min(at + LOOK, len(draft))) if draft[ahead] == token), None)
