"""Penalties and ramps: the one place where logits change before a pick.

Order and formulas: clover reference, section 7 (following the release's own penalty state).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.generation_config import Ramp
from engine.params import ControlSettings


class Controls:
    """Changes logits by what the response holds so far; keeps its counts on the logits' device."""

    def __init__(self, settings: ControlSettings, vocab_size: int, device: torch.device | str = "cpu") -> None:
        self._settings = settings
        self.device = torch.device(device)
        self._counts = torch.zeros(vocab_size, device=self.device)
        self._banned = self._ids([settings.mask_token_id, *settings.suppressed], vocab_size)
        self._stops = self._ids(settings.stop_ids, vocab_size)
        self._think_closed = False
        self._penalised = (
            settings.presence_penalty != 0 or settings.frequency_penalty != 0 or settings.repetition_penalty != 1
        )

    def commit(self, ids: Sequence[int]) -> None:
        """Count `ids` as part of the response: from now on they are penalised."""
        self._counts += torch.bincount(
            torch.tensor(ids, dtype=torch.long, device=self.device), minlength=len(self._counts)
        )
        self._think_closed = self._think_closed or self._settings.think_end_token_id in ids

    def apply(self, logits: Tensor, positions: Tensor, block: Sequence[int] = ()) -> Tensor:
        """Changed copy of raw `logits` [rows, vocab], in float32.

        positions: [rows], the response position (from 1) that each row's token would take.
        block: ids fixed in the current block; they count for nothing but the think-end ramp.
        """
        wanted = self._settings
        logits = logits.to(torch.float32, copy=True)
        logits[:, self._banned] = -torch.inf
        if self._penalised:
            seen = self._counts > 0
            logits -= self._counts * wanted.frequency_penalty
            logits -= seen * wanted.presence_penalty
            r = wanted.repetition_penalty
            logits = torch.where(seen, torch.where(logits < 0, logits * r, logits / r), logits)
        if wanted.length_ramp.strength and len(self._stops):
            logits[:, self._stops] += self._ramp(wanted.length_ramp, positions)[:, None]
        closing = wanted.think_end_token_id
        if wanted.think_end_ramp.strength and closing is not None and not (self._think_closed or closing in block):
            logits[:, closing] += self._ramp(wanted.think_end_ramp, positions)
        return logits

    @staticmethod
    def _ramp(ramp: Ramp, positions: Tensor) -> Tensor:
        return ramp.strength * ((positions.float() - ramp.start) / ramp.window).clamp(0, 1)

    def _ids(self, ids: Sequence[int], vocab_size: int) -> Tensor:
        return torch.tensor([i for i in ids if i < vocab_size], dtype=torch.long, device=self.device)
