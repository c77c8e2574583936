"""Greedy block diffusion of held-out spans with the training forward, many examples at once.

The same decisions as engine.decode.diffusion at temperature 0 without penalties; slower a token, faster for a set,
and it needs no exported checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import CloverConfig
from engine.model.norms import rms_norm
from engine.training.forward import Weights, forward, linear
from engine.training.layout import lay_out
from engine.training.objective import head_weight
from engine.training.packing import Example, Span
from engine.training.scan import CHUNK


@dataclass(frozen=True)
class DecodeSettings:
    """threshold: confidence above which a row is filled; blocks: at most so many a span."""

    threshold: float = 0.9
    blocks: int = 8
    group: int = 128


def scored_span(example: Example) -> Span:
    """The span to decode. Raises StopIteration when an example has none."""
    return next(span for span in example.spans if span.scored)


@torch.no_grad()
def decode_spans(
    weights: Weights, config: CloverConfig, examples: Sequence[Example], stop_id: int,
    settings: DecodeSettings, *, device: torch.device, compute: torch.dtype,
) -> list[tuple[list[int], int]]:  # fmt: skip
    """For each example, the ids written for its scored span (stop id left out) and the passes over its blocks."""
    order = sorted(range(len(examples)), key=lambda i: scored_span(examples[i]).start)
    results: list[tuple[list[int], int]] = [([], 0)] * len(examples)
    for begin in range(0, len(order), settings.group):
        chosen = order[begin : begin + settings.group]
        group = [examples[i] for i in chosen]
        decoded = _decode_group(weights, config, group, stop_id, settings, device, compute)
        for index, result in zip(chosen, decoded, strict=True):
            results[index] = result
    return results


def _decode_group(
    weights: Weights, config: CloverConfig, group: Sequence[Example], stop_id: int,
    settings: DecodeSettings, device: torch.device, compute: torch.dtype,
) -> list[tuple[list[int], int]]:  # fmt: skip
    block = config.block_size
    starts = [scored_span(example).start for example in group]
    length = -(-(max(starts) + settings.blocks * block) // CHUNK) * CHUNK
    canvas = torch.zeros(len(group), length, dtype=torch.int64)
    for row, (example, start) in enumerate(zip(group, starts, strict=True)):
        canvas[row, :start] = torch.tensor(list(example.tokens[:start]))
    canvas = canvas.to(device)
    first = torch.tensor(starts, device=device)
    passes = torch.zeros(len(group), dtype=torch.int64, device=device)
    done = torch.zeros(len(group), dtype=torch.bool, device=device)
    reached = 0
    for number in range(settings.blocks):
        reached = number + 1
        at = first + number * block
        rows = torch.full((len(group), block), config.mask_token_id, device=device)
        rows[done] = stop_id
        layout = lay_out(at[:, None], length, block, config.linear_conv_kernel_dim - 1)
        while bool((rows == config.mask_token_id).any()):
            flat = torch.cat((canvas.flatten(), rows.flatten()))
            hidden = forward(weights, config, flat, layout, compute=compute).hidden[layout.clean :]
            logits = linear(rms_norm(hidden, weights["model.norm.weight"], config.rms_norm_eps), head_weight(weights))
            passes += (rows == config.mask_token_id).any(1)
            rows = fill(rows, logits.float().view(*rows.shape, -1), config.mask_token_id, settings.threshold)
        place = at[:, None] + torch.arange(block, device=device)
        canvas.scatter_(1, place, rows)
        done |= (rows == stop_id).any(1)
        if bool(done.all()):
            break
    written = canvas.tolist()
    results = []
    for row, start in enumerate(starts):
        ids = written[row][start : start + reached * block]
        results.append((ids[: ids.index(stop_id)] if stop_id in ids else ids, int(passes[row])))
    return results


def fill(rows: Tensor, logits: Tensor, mask_id: int, threshold: float) -> Tensor:
    """Fix the masked rows [E, B] whose confidence exceeds `threshold`, at least the surest one of each example."""
    masked = rows == mask_id
    logits[..., mask_id] = -torch.inf
    confidence, choice = logits.softmax(-1).max(-1)
    confidence = confidence.masked_fill(~masked, -1)
    surest = torch.nn.functional.one_hot(confidence.argmax(1), rows.shape[1]).bool()
    fixed = masked & ((confidence > threshold) | surest)
    return torch.where(fixed, choice, rows)


def evaluate(
    weights: Weights, config: CloverConfig, examples: Sequence[Example], stop_id: int, settings: DecodeSettings,
    decode: Callable[[list[int]], str], score: Callable[[str, str], dict[str, bool]], *,
    device: torch.device, compute: torch.dtype,
) -> tuple[dict[str, float], list[tuple[str, str]]]:  # fmt: skip
    """Shares of `score`'s findings, mean passes a span ("passes") and positions a pass ("tpf"); the texts compared."""
    found = decode_spans(weights, config, examples, stop_id, settings, device=device, compute=compute)
    counts: Counter[str] = Counter()
    texts: list[tuple[str, str]] = []
    for example, (ids, _) in zip(examples, found, strict=True):
        span = scored_span(example)
        expected = decode(list(example.tokens[span.start : span.end - 1]))
        actual = decode(ids)
        counts.update({name: int(value) for name, value in score(expected, actual).items()})
        texts.append((expected, actual))
    total = max(len(examples), 1)
    passes = sum(count for _, count in found)
    figures = {name: count / total for name, count in sorted(counts.items())}
    figures["passes"] = passes / total
    figures["tpf"] = sum(len(ids) + 1 for ids, _ in found) / max(passes, 1)
    return figures, texts
