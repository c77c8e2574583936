"""Sparse experts: a router, fused routed experts, and a gated shared expert."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import CloverConfig


class Router(nn.Module):
    """Scores of the experts; weight [experts, hidden]."""

    def __init__(self, hidden: int, experts: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(experts, hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities [..., experts] in float32."""
        return F.linear(x, self.weight).float().softmax(-1)


class Experts(nn.Module):
    """Routed experts: gate_up_proj [experts, 2 * width, hidden], gate first; down_proj [experts, hidden, width]."""

    def __init__(self, experts: int, hidden: int, width: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.zeros(experts, 2 * width, hidden))
        self.down_proj = nn.Parameter(torch.zeros(experts, hidden, width))

    def forward(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Sum of the chosen experts' outputs: rows x [n, hidden], weights and ids `chosen` [n, k]."""
        out = torch.zeros_like(x)
        flat = chosen.flatten()
        order = flat.argsort()
        rows = order // chosen.shape[1]
        scale = weights.flatten()[order].to(x.dtype)[:, None]
        inputs = x[rows]
        start = 0
        for expert, count in enumerate(flat.bincount(minlength=self.down_proj.shape[0]).tolist()):
            if not count:
                continue
            part = slice(start, start + count)
            gate, up = F.linear(inputs[part], self.gate_up_proj[expert]).chunk(2, dim=-1)
            result = F.linear(F.silu(gate) * up, self.down_proj[expert])
            out.index_add_(0, rows[part], result * scale[part])
            start += count
        return out


class SharedExpert(nn.Module):
    """An expert that every row uses."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, width, bias=False)
        self.up_proj = nn.Linear(hidden, width, bias=False)
        self.down_proj = nn.Linear(width, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class SparseMoe(nn.Module):
    """The feed-forward part of a layer."""

    def __init__(self, config: CloverConfig) -> None:
        super().__init__()
        self.top_k, self.renormalise, self.coreset_top_p = (
            config.num_experts_per_tok,
            config.norm_topk_prob,
            config.coreset_top_p,
        )
        hidden = config.hidden_size
        self.gate = Router(hidden, config.num_experts)
        self.experts = Experts(config.num_experts, hidden, config.moe_intermediate_size)
        self.shared_expert = SharedExpert(hidden, config.shared_expert_intermediate_size)
        self.shared_expert_gate = nn.Linear(hidden, 1, bias=False)

    def forward(self, x: Tensor, *, block: bool = False) -> Tensor:
        """Rows x [n, hidden]. `block`: they are the rows of one preview, which share an expert coreset."""
        probabilities = self.gate(x)
        allowed = None
        if block and self.coreset_top_p is not None:
            allowed = block_coreset(probabilities, self.top_k, self.coreset_top_p)
        weights, chosen = route(probabilities, self.top_k, renormalise=self.renormalise, allowed=allowed)
        return self.experts(x, weights, chosen) + self.shared(x)

    def shared(self, x: Tensor) -> Tensor:
        """The gated shared expert of rows x [..., hidden]."""
        return self.shared_expert_gate(x).sigmoid() * self.shared_expert(x)


def route(
    probabilities: Tensor, top_k: int, *, renormalise: bool, allowed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Weights and ids [..., k] of each row's experts from probabilities [..., experts].

    `allowed` [experts] bool restricts the choice, to fewer than `top_k` where fewer are allowed.
    """
    if allowed is not None:
        probabilities = probabilities.masked_fill(~allowed, -1.0)
        top_k = min(top_k, int(allowed.sum()))
    weights, chosen = probabilities.topk(top_k, dim=-1)
    if renormalise or allowed is not None:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, chosen


def block_coreset(probabilities: Tensor, top_k: int, top_p: float) -> Tensor:
    """Experts [experts] (bool) that a block keeps: rows vote with the probabilities of their own top-k; the most voted
    experts are kept while the mass before them is below `top_p`, the first one always (the release's coreset)."""
    votes, voted = probabilities.topk(top_k, dim=-1)
    totals = torch.zeros_like(probabilities[0]).index_add_(0, voted.flatten(), votes.flatten())
    ranked, order = (totals / totals.sum()).sort(descending=True, stable=True)
    keep = ranked.cumsum(-1) - ranked < top_p
    keep[0] = True
    return torch.zeros_like(keep).scatter_(0, order, keep)
