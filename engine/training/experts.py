"""Sparse experts over the flat rows of a training batch: sort by expert, two grouped products, sum back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class _Spread(torch.autograd.Function):
    """Each row to its k places in expert order; the backward sums the k places by gathers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        return x[order // place.shape[1]]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (place,) = ctx.saved_tensors
        return grads[0][place.flatten()].view(*place.shape, -1).sum(1), None, None


class _Collect(torch.autograd.Function):
    """Rows in expert order back to [rows, k, hidden]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x[place.flatten()].view(*place.shape, -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (order,) = ctx.saved_tensors
        return grads[0].flatten(0, 1)[order], None, None


def grouped(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """Rows x [n, in] in expert order times each expert's weight [experts, out, in]^T; ends: int32 [experts]."""
    transposed = weight.to(x.dtype).transpose(-1, -2)
    if x.is_cuda and x.dtype == torch.bfloat16:
        return torch._grouped_mm(x, transposed, offs=ends)  # pyright: ignore[reportPrivateImportUsage]
    starts = [0, *ends.tolist()]
    return torch.cat([x[a:b] @ transposed[e] for e, (a, b) in enumerate(pairwise(starts))])


def _top(probabilities: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """topk along the last of few dimensions, as maxima that the compiler fuses with their neighbours."""
    values, indices = [], []
    for _ in range(top_k):
        value, index = probabilities.max(-1, keepdim=True)
        values.append(value)
        indices.append(index)
        ids = torch.arange(probabilities.shape[-1], device=probabilities.device)
        probabilities = probabilities.masked_fill(ids == index, -1.0)
    return torch.cat(values, -1), torch.cat(indices, -1)


def mixture(
    x: Tensor, router: Tensor, gate_up: Tensor, down: Tensor, shared_gate: Tensor, shared_up: Tensor,
    shared_down: Tensor, shared_scale: Tensor, top_k: int, renormalise: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Output [rows, hidden] of the feed-forward part on normed rows x, and the load-balancing loss.

    The loss is that of Switch Transformers (Fedus et al. 2021): experts * sum over experts of (share of choices
    * mean probability); 1 when the load is even.
    """
    count = router.shape[0]
    probabilities = F.linear(x.float(), router.float()).softmax(-1)
    weights, chosen = _top(probabilities, top_k)
    if renormalise:
        weights = weights / weights.sum(-1, keepdim=True)
    flat = chosen.flatten()
    load = torch.nn.functional.one_hot(flat, count).sum(0)
    order = flat.argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.shape[0], device=order.device)
    place = place.view(-1, top_k)
    ends = load.cumsum(0).to(torch.int32)

    gate, up = grouped(_Spread.apply(x, order, place), gate_up, ends).chunk(2, dim=-1)  # type: ignore[union-attr]
    routed = _Collect.apply(grouped(F.silu(gate) * up, down, ends), order, place)
    routed = (routed * weights.to(x.dtype)[..., None]).sum(1)  # type: ignore[operator]

    inner = F.silu(F.linear(x, shared_gate.to(x.dtype))) * F.linear(x, shared_up.to(x.dtype))
    shared = F.linear(inner, shared_down.to(x.dtype)) * F.linear(x, shared_scale.to(x.dtype)).sigmoid()
    share = load.float() / flat.shape[0]
    return routed + shared, count * (share * probabilities.mean(0)).sum()
