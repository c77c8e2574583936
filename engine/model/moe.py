"""Sparse experts: a router, fused routed experts, and a gated shared expert."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import CloverConfig
from engine.model.norms import wide
from engine.model.packed import PackedLinear, pack


class Router(nn.Module):
    """Scores of the experts; weight [experts, hidden]."""

    def __init__(self, hidden: int, experts: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(experts, hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Raw scores [..., experts]."""
        return F.linear(x, self.weight)


class Experts(nn.Module):
    """Routed experts: gate_up_proj [experts, 2 * width, hidden], gate first; down_proj [experts, hidden, width]."""

    def __init__(self, experts: int, hidden: int, width: int) -> None:
        super().__init__()
        self.count = experts
        self.gate_up_proj = nn.Parameter(torch.zeros(experts, 2 * width, hidden))
        self.down_proj = nn.Parameter(torch.zeros(experts, hidden, width))
        self.packed: list[tuple[PackedLinear, PackedLinear]] | None = None

    def pack(self) -> None:
        """Give up the parameters for packed matrices, two an expert (`engine.model.packed`)."""
        pairs = zip(self.gate_up_proj, self.down_proj, strict=True)
        self.packed = [(PackedLinear([gate_up]), PackedLinear([down])) for gate_up, down in pairs]
        del self.gate_up_proj, self.down_proj

    def forward(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Sum of the chosen experts' outputs: rows x [n, hidden], weights and ids `chosen` [n, k].

        The (row, expert) pairs are put in the order of the experts, so that each expert is two products.
        """
        pairs = chosen.flatten()
        order = pairs.argsort()
        counts = pairs.bincount(minlength=self.count).tolist()
        inputs = x[order // chosen.shape[1]]
        gate, up = self._each(0, inputs, counts).chunk(2, dim=-1)
        results = self._each(1, F.silu(gate) * up, counts)
        by_row = torch.empty_like(results).index_copy_(0, order, results).view(*chosen.shape, -1)
        return (weights.to(x.dtype)[:, None] @ by_row)[:, 0]

    def _each(self, stage: int, rows: Tensor, counts: list[int]) -> Tensor:
        """`rows`, in the order of the experts, each through its own expert's matrix: gate_up (0) or down (1)."""
        parts: list[Tensor] = []
        for expert, part in enumerate(rows.split(counts)):
            if not part.shape[0]:
                continue
            if self.packed is not None:
                parts.append(self.packed[expert][stage](part))
            else:
                parts.append(F.linear(part, (self.down_proj if stage else self.gate_up_proj)[expert]))
        return torch.cat(parts)


class SharedExpert(nn.Module):
    """An expert that every row uses."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, width, bias=False)
        self.up_proj = nn.Linear(hidden, width, bias=False)
        self.down_proj: nn.Module = nn.Linear(width, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Rows x [..., hidden]."""
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
        self.packed: PackedLinear | None = None

    def pack(self) -> None:
        """Give up the parameters of all matrices for packed ones (`engine.model.packed`)."""
        shared = self.shared_expert
        self.packed = pack(self.gate, self.shared_expert_gate, shared.gate_proj, shared.up_proj)
        shared.down_proj = pack(shared.down_proj)
        self.experts.pack()
        del self.gate, self.shared_expert_gate, shared.gate_proj, shared.up_proj

    def forward(self, x: Tensor, *, block: bool = False, top_p: float | None = None) -> Tensor:
        """Rows x [n, hidden]. `block`: they are the rows of one preview, which share an expert coreset.

        top_p: mass of that coreset, None for the checkpoint's own, 1 for none.
        """
        top_p = self.coreset_top_p if top_p is None else top_p
        scores, shared = self.scores_and_shared(x)
        probabilities = wide(scores).softmax(-1)
        allowed = None
        if block and top_p is not None and top_p < 1:
            allowed = block_coreset(probabilities, self.top_k, top_p)
        weights, chosen = route(probabilities, self.top_k, renormalise=self.renormalise, allowed=allowed)
        return self.experts(x, weights, chosen) + shared

    def scores_and_shared(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The router's scores [..., experts] of rows x [..., hidden], and the gated shared expert's output."""
        if self.packed is None:
            return self.gate(x), self.shared_expert_gate(x).sigmoid() * self.shared_expert(x)
        scores, scale, gate, up = self.packed.split(x)
        return scores, scale.sigmoid() * self.shared_expert.down_proj(F.silu(gate) * up)


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
