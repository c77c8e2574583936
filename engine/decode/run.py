"""One response in the making: what every decode mode reads and advances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.decode.constraint import Cursor
from engine.decode.controls import Controls
from engine.decode.loops import LoopGuard
from engine.events import BlockUpdate
from engine.params import DecodeSettings

CLOSING_ROOM = 96  # room beyond a response's shortest end, below which every token is checked for leaving that room


class Landing(Protocol):
    """Rows of a causal pass that are not committed yet."""

    def land(self, count: int) -> None:
        """Commit the first `count` rows."""
        ...


class Model(Protocol):
    """The passes of the model over one committed state."""

    def causal(self, tokens: Tensor, state: Any, logits: str = "last") -> Tensor | None:
        """Advance `state` by `tokens` [n]; next-token logits [1, vocab] for "last", None for "none"."""
        ...

    def preview(self, tokens: Tensor, state: Any, top_p: float | None = None) -> Tensor:
        """Logits [block, vocab] of a block, row r for the token at r; top_p: of the coreset. Reads `state` only."""
        ...

    def verify(self, tokens: Tensor, state: Any) -> tuple[Tensor, Landing]:
        """Next-token logits [n, vocab] of every row of a causal pass that commits nothing until it lands."""
        ...


@dataclass(frozen=True)
class Step:
    """What one step of a decode mode did.

    tokens: ids that became final, with the confidence of each. finish: "stop", "length", "repetition", or "" to go on.
    passes: previews; commits: causal passes. drafted: tokens that a causal pass checked; accepted: those it took.
    mode: the mode that wrote the tokens, where that changes within a response.
    """

    tokens: tuple[int, ...] = ()
    confidence: tuple[float, ...] = ()
    update: BlockUpdate | None = None
    finish: str = ""
    passes: int = 0
    commits: int = 0
    drafted: int = 0
    accepted: int = 0
    mode: str = ""


class Decoder(Protocol):
    """A decode mode: one step takes the passes it needs to make progress, over a shared Run."""

    def step(self) -> Step:
        """Go one step further. Not to be called after a step that finished."""
        ...


class Run:
    """A committed state and the response on top of it.

    response: final ids. pending: the tail of them that `state` does not hold yet; every mode commits it before
    or in its next pass, so the mode may change at any block boundary.
    """

    def __init__(
        self,
        model: Model,
        state: Any,
        *,
        settings: DecodeSettings,
        controls: Controls,
        logits: Tensor | None = None,
        grammar: Cursor | None = None,
        guard: LoopGuard | None = None,
    ) -> None:
        """`state` holds the prompt; `logits` [1, vocab] are those of its last token, where a mode needs them.

        grammar: the place at the response's start; every id of the response will have been consumed by it.
        """
        self.model = model
        self.state = state
        self.settings = settings
        self.controls = controls
        self.grammar = grammar
        self.device = controls.device
        self.generator = torch.Generator(device=self.device).manual_seed(settings.seed)
        self.response: list[int] = []
        self.pending: list[int] = []
        self._guard = guard
        self.closing: list[int] = []  # a constrained response at the end of its room: the rest of it
        self._horizon = 0  # room from which on that is looked for
        if grammar is not None and (way := grammar.completion(self.room)) is not None:
            self._horizon = len(way) + CLOSING_ROOM
        self._logits = logits

    @property
    def committed(self) -> int:
        """Length of the part of the response that `state` holds."""
        return len(self.response) - len(self.pending)

    @property
    def room(self) -> int:
        """Tokens that may still be added."""
        return self.settings.max_new_tokens - len(self.response)

    def advance(self) -> int:
        """Commit what is pending; returns the number of causal passes that took (0 or 1)."""
        if not self.pending:
            return 0
        kept = "last" if self.settings.mode == "auto" else "none"  # a block that is given up leaves its place to others
        self._logits = self.model.causal(self.tensor(self.pending), self.state, logits=kept)
        self.pending = []
        return 1

    def next_logits(self) -> tuple[Tensor, int]:
        """Raw next-token logits [1, vocab] after everything so far, and the causal passes that took (0 or 1)."""
        if not self.pending:
            if self._logits is None:
                raise RuntimeError("the last commit left no logits behind")
            return self._logits, 0
        self._logits = self.model.causal(self.tensor(self.pending), self.state, logits="last")
        self.pending = []
        assert self._logits is not None
        return self._logits, 1

    def landed(self, landing: Landing, count: int) -> None:
        """Commit the first `count` pending ids by the causal pass that read them already."""
        landing.land(count)
        del self.pending[:count]

    def forced(self) -> list[int]:
        """Ids that must come next, whatever the model says: they cost no pass.

        A think section at its budget is closed; a grammar may leave no choice, or only just the room to end well.
        """
        if self.closing:
            return self.closing
        closing, budget = self.settings.controls.think_end_token_id, self.settings.thinking_budget
        spent = budget is not None and self.controls.thinking and len(self.response) >= budget
        if closing is not None and spent and (self.grammar is None or self.grammar.allows(closing)):
            return [closing]
        return self.grammar.forced() if self.grammar is not None else []

    def take_forced(self) -> Step | None:
        """A step that adds the forced ids, or None where there are none."""
        ids = self.forced()
        if not ids:
            return None
        tokens, finish = self.accept(ids)
        return Step(tokens, (1.0,) * len(tokens), finish=finish)

    def cut(self, ids: Sequence[int]) -> tuple[list[int], str, bool]:
        """The part of `ids` that may follow the response: up to and including the first stop id, within the room and
        the thinking budget. With the finish reason ("stop", "length" or ""), and whether nothing may follow directly.
        """
        kept = list(ids[: self.room])
        stop = next((i for i, token in enumerate(kept) if token in self.settings.controls.stop_ids), None)
        if stop is not None:
            kept = kept[: stop + 1]
        over = stop is not None or len(kept) == self.room
        budget = self.settings.thinking_budget
        if budget is not None and self.controls.thinking:
            left = max(budget - len(self.response), 1)
            if self.settings.controls.think_end_token_id not in kept[: left + 1] and len(kept) >= left:
                held, kept = kept, kept[:left]
                over, stop = True, stop if len(held) == len(kept) else None
        finish = "stop" if stop is not None else "length" if len(kept) == self.room else ""
        return kept, finish, over

    def accept(self, ids: Sequence[int]) -> tuple[tuple[int, ...], str]:
        """Add resolved ids, cut as `cut` says, or where they are seen to go in circles.

        Returns the ids kept, and the finish reason ("stop", "length", "repetition" or "").
        """
        kept, finish, _ = self.cut(ids)
        closing, self.closing = bool(self.closing), self.closing[len(kept) :]
        for count, token in enumerate(kept):
            if self.grammar is not None and not self._follow(token, self.room - count, self.grammar, closing=closing):
                kept, finish = kept[:count], ""
                break
            stands, ended = self._guard.watch(token, self.controls) if self._guard is not None else (True, False)
            if ended or not stands:
                kept, finish = kept[: count + 1], "repetition" if ended else finish if count + 1 == len(kept) else ""
                break
        self.response.extend(kept)
        self.pending.extend(kept)
        self.controls.commit(kept)
        return tuple(kept), finish

    def _follow(self, token: int, room: int, grammar: Cursor, *, closing: bool) -> bool:
        """Lead the grammar over `token`; False, and a way to close the response, where it takes the room for an end."""
        ahead = grammar if closing or room > self._horizon else grammar.fork()
        if not ahead.consume(token):
            raise RuntimeError(f"token {token} does not follow the grammar")
        if ahead is not grammar:
            if ahead.completion(room - 1) is None and (way := grammar.completion(room)) is not None:
                self.closing = way
                return False
            self.grammar = ahead
        return True

    def tensor(self, ids: Sequence[int]) -> Tensor:
        """Ids as a tensor on the model's device."""
        return torch.tensor(ids, dtype=torch.long, device=self.device)
