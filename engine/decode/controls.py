"""Penalties, ramps and masks: the one place where logits change before a pick.

Order and formulas: clover reference, section 7 (following the release's own penalty state); a grammar's masks come
last, so that nothing brings back what they forbid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from engine.generation_config import NO_RAMP, Ramp
from engine.params import ControlSettings

Ending = Literal["thinking", "response"]


class Controls:
    """Changes logits by what the response holds so far; keeps its counts on the logits' device."""

    def __init__(self, settings: ControlSettings, vocab_size: int, device: torch.device | str = "cpu") -> None:
        self._settings = settings
        self.device = torch.device(device)
        self._counts = torch.zeros(vocab_size, device=self.device)
        self._banned = self._ids([settings.mask_token_id, *settings.suppressed], vocab_size)
        self._stops = self._ids(settings.stop_ids, vocab_size)
        self._think_closed = False
        self._ending: dict[Ending, Ramp] = {"thinking": NO_RAMP, "response": NO_RAMP}
        self._penalised = (
            settings.presence_penalty != 0 or settings.frequency_penalty != 0 or settings.repetition_penalty != 1
        )

    @property
    def thinking(self) -> bool:
        """Whether the response is inside a think section that the prompt left open."""
        return self._settings.thinking and not self._think_closed

    def commit(self, ids: Sequence[int]) -> None:
        """Count `ids` as part of the response: from now on they are penalised."""
        if self._penalised:
            self._counts += torch.bincount(
                torch.tensor(ids, dtype=torch.long, device=self.device), minlength=len(self._counts)
            )
        self._think_closed = self._think_closed or self._settings.think_end_token_id in ids

    def end(self, what: Ending, ramp: Ramp) -> None:
        """Press for the end of the think section or of the response by a further ramp; NO_RAMP takes it back."""
        self._ending[what] = ramp

    def apply(
        self,
        logits: Tensor,
        positions: Tensor,
        block: Sequence[int] = (),
        *,
        drafts: Sequence[int] = (),
        masks: Sequence[Tensor] = (),
    ) -> Tensor:
        """Changed copy of raw `logits` [rows, vocab], in float32.

        positions: [rows], the response position (from 1) that each row's token would take.
        block: ids fixed in the current block; they count for nothing but the think-end ramps.
        drafts: at most rows - 1 ids; row j is treated as if the first j of them were in the response.
        masks: [vocab] bool of the ids allowed, for the first rows; the others are free.
        """
        wanted = self._settings
        logits = logits.to(torch.float32, copy=True)
        logits[:, self._banned] = -torch.inf
        if self._penalised:
            logits = self._penalise(logits, drafts)
        self._add(logits, self._stops, wanted.length_ramp, positions)
        self._add(logits, self._stops, self._ending["response"], positions)
        closing = wanted.think_end_token_id
        if closing is not None and not (self._think_closed or closing in block):
            open_rows = drafts.index(closing) + 1 if closing in drafts else len(positions)
            column = torch.tensor([closing], device=self.device)
            for ramp in (wanted.think_end_ramp, self._ending["thinking"]):
                self._add(logits[:open_rows], column, ramp, positions[:open_rows])
        for row, mask in enumerate(masks):
            logits[row].masked_fill_(~mask, -torch.inf)
        return logits

    def _penalise(self, logits: Tensor, drafts: Sequence[int]) -> Tensor:
        wanted = self._settings
        counts = self._counts
        if drafts:
            counts = counts.repeat(logits.shape[0], 1)
            for row, token in enumerate(drafts, 1):
                counts[row:, token] += 1
        seen = counts > 0
        logits -= counts * wanted.frequency_penalty
        logits -= seen * wanted.presence_penalty
        r = wanted.repetition_penalty
        return torch.where(seen, torch.where(logits < 0, logits * r, logits / r), logits)

    @staticmethod
    def _add(logits: Tensor, columns: Tensor, ramp: Ramp, positions: Tensor) -> None:
        if ramp.strength and len(columns):
            bias = ramp.strength * ((positions.float() - ramp.start) / ramp.window).clamp(0, 1)
            logits[:, columns] += bias[:, None]

    def _ids(self, ids: Sequence[int], vocab_size: int) -> Tensor:
        return torch.tensor([i for i in ids if i < vocab_size], dtype=torch.long, device=self.device)
