"""Picks: one id a row, and how sure the model is of it."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.params import DecodeSettings


def pick(logits: Tensor, settings: DecodeSettings, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ids [rows] and confidences [rows] from controlled `logits` [rows, vocab], float32.

    Greedy at temperature 0 (the first maximum), else a draw from `distribution`.
    """
    ids = logits.argmax(dim=-1) if settings.temperature == 0 else draw(distribution(logits, settings), generator)
    return ids, confidence(logits, ids)


def confidence(logits: Tensor, ids: Tensor) -> Tensor:
    """Softmax probability [rows] of `ids` [rows] at temperature 1, whatever they were drawn from."""
    return (logits.gather(-1, ids[:, None]).squeeze(-1) - logits.logsumexp(dim=-1)).exp()


def distribution(logits: Tensor, settings: DecodeSettings) -> Tensor:
    """Probabilities [rows, vocab] that a draw follows: temperature, then top-k (ties at the cut stay), then top-p.

    One-hot at the first maximum for temperature 0.
    """
    if settings.temperature == 0:
        return torch.zeros_like(logits).scatter_(-1, logits.argmax(dim=-1, keepdim=True), 1.0)
    return _cut(logits / settings.temperature, settings.top_k, settings.top_p).softmax(dim=-1)


def draw(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """One id a row, [rows], from weights [rows, vocab]."""
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(-1)


def _cut(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    if 0 < top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        p = ordered.softmax(dim=-1)
        # An id stays while the mass in front of it is below top_p, so the first always stays.
        dropped = p.cumsum(dim=-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(dropped).scatter(-1, order, dropped), -torch.inf)
    return logits
