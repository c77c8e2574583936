"""One response in the making: what every decode mode reads and advances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.decode.controls import Controls
from engine.events import BlockUpdate
from engine.params import DecodeSettings


class Model(Protocol):
    """The two passes of the model over one committed state."""

    def causal(self, tokens: Tensor, state: Any, logits: str = "last") -> Tensor | None:
        """Advance `state` by `tokens` [n]; next-token logits [1, vocab] for "last", None for "none"."""
        ...

    def preview(self, tokens: Tensor, state: Any) -> Tensor:
        """Logits [block, vocab] of a block, row r for the token at r. Reads `state` only."""
        ...


@dataclass(frozen=True)
class Step:
    """What one step of a decode mode did.

    tokens: ids that became final, with the confidence of each. finish: "stop", "length", or "" to go on.
    passes: previews; commits: causal passes.
    """

    tokens: tuple[int, ...] = ()
    confidence: tuple[float, ...] = ()
    update: BlockUpdate | None = None
    finish: str = ""
    passes: int = 0
    commits: int = 0


class Decoder(Protocol):
    """A decode mode: one forward pass (and the commit it needs) a step, over a shared Run."""

    def step(self) -> Step:
        """Go one pass further. Not to be called after a step that finished."""
        ...


class Run:
    """A committed state and the response on top of it.

    response: final ids. pending: the tail of them that `state` does not hold yet; every mode commits it before
    its next pass, so the mode may change at any block boundary.
    """

    def __init__(
        self, model: Model, state: Any, *, settings: DecodeSettings, controls: Controls, logits: Tensor | None = None
    ) -> None:
        """`state` holds the prompt; `logits` [1, vocab] are those of its last token, where a mode needs them."""
        self.model = model
        self.state = state
        self.settings = settings
        self.controls = controls
        self.device = controls.device
        self.generator = torch.Generator(device=self.device).manual_seed(settings.seed)
        self.response: list[int] = []
        self.pending: list[int] = []
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
        self._logits = self.model.causal(self.tensor(self.pending), self.state, logits="none")
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

    def accept(self, ids: Sequence[int]) -> tuple[tuple[int, ...], str]:
        """Add resolved ids, cut behind the first stop id or at the response's end.

        Returns the ids kept, and the finish reason ("stop", "length" or "").
        """
        kept = list(ids[: self.room])
        stop = next((i for i, token in enumerate(kept) if token in self.settings.controls.stop_ids), None)
        if stop is not None:
            kept = kept[: stop + 1]
        self.response.extend(kept)
        self.pending.extend(kept)
        self.controls.commit(kept)
        finish = "stop" if stop is not None else "length" if self.room == 0 else ""
        return tuple(kept), finish

    def tensor(self, ids: Sequence[int]) -> Tensor:
        """Ids as a tensor on the model's device."""
        return torch.tensor(ids, dtype=torch.long, device=self.device)
