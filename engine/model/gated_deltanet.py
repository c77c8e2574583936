"""Gated DeltaNet with Clover's block-diffusion parameters.

The causal pass is the delta rule behind a short causal convolution. The preview replaces both: the convolution also
looks right inside the block (`conv_right_weight`), and each row mixes, by one softmax, the values of the whole block
and one history slot that reads the committed memory (`bd_softmax_*`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import CloverConfig
from engine.model.delta_rule import Writes, chunked, one_chunk, recurrent
from engine.model.norms import gated_rms_norm, l2_norm, wide
from engine.model.packed import PackedLinear, pack
from engine.state import DeltaState

RuleInputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]  # query, key, value, log decay, beta
_RECURRENT_ROWS = 2  # up to this many rows, stepping is faster than a chunk
TRAINED_BLOCK = 32  # the history slot's bias is measured against this block size


@dataclass(frozen=True)
class DeltaRows:
    """What uncommitted rows would do to a layer's state. inputs: of the convolution, [kernel - 1 + n, channels]."""

    inputs: Tensor
    writes: Writes

    def land(self, state: DeltaState, rows: int) -> None:
        """Advance `state`, which must be as it was when the rows were computed, by the first `rows` of them."""
        if rows:
            state.memory = self.writes.after(state.memory, rows)
            state.ring = self.inputs[rows : rows + state.ring.shape[0]].clone()


class OutputNorm(nn.Module):
    """Weight of the gated output norm, [value_head_dim]."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))


class GatedDeltaNet(nn.Module):
    """One linear-attention mixer."""

    def __init__(self, config: CloverConfig) -> None:
        super().__init__()
        self.key_heads, self.value_heads = config.linear_num_key_heads, config.linear_num_value_heads
        self.key_head_dim, self.value_head_dim = config.linear_key_head_dim, config.linear_value_head_dim
        self.key_dim, self.value_dim, self.eps = config.key_dim, config.value_dim, config.rms_norm_eps
        hidden, channels, kernel = config.hidden_size, config.conv_dim, config.linear_conv_kernel_dim
        self.in_proj_qkv = nn.Linear(hidden, channels, bias=False)
        self.in_proj_z = nn.Linear(hidden, self.value_dim, bias=False)
        self.in_proj_b = nn.Linear(hidden, self.value_heads, bias=False)
        self.in_proj_a = nn.Linear(hidden, self.value_heads, bias=False)
        self.conv1d = nn.Conv1d(channels, channels, kernel, groups=channels, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(self.value_heads))
        self.A_log = nn.Parameter(torch.zeros(self.value_heads))
        self.norm = OutputNorm(self.value_head_dim)
        self.out_proj: nn.Module = nn.Linear(self.value_dim, hidden, bias=False)
        self.packed: PackedLinear | None = None
        self.conv_right_weight = nn.Parameter(torch.zeros(channels, kernel - 1))
        self.bd_softmax_logit_scale = nn.Parameter(torch.ones(self.value_heads))
        self.bd_softmax_history_bias = nn.Parameter(torch.zeros(self.value_heads))
        self.bd_softmax_history_c = nn.Parameter(torch.ones(self.value_heads))

    def pack(self) -> None:
        """Give up the parameters of the projections for packed ones (`engine.model.packed`)."""
        self.packed = pack(self.in_proj_qkv, self.in_proj_z, self.in_proj_a, self.in_proj_b)
        self.out_proj = pack(self.out_proj)
        del self.in_proj_qkv, self.in_proj_z, self.in_proj_a, self.in_proj_b

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Convolution inputs [..., channels], gate [..., value_dim], step and beta [..., value_heads] of rows x."""
        if self.packed is not None:
            raw, gate, step, beta = self.packed.split(x)
            return raw, gate, step, beta
        return self.in_proj_qkv(x), self.in_proj_z(x), self.in_proj_a(x), self.in_proj_b(x)

    def causal(self, x: Tensor, state: DeltaState) -> Tensor:
        """Rows x [n, hidden]; advances ring and memory by them."""
        rule_inputs, inputs, gate = self._rule_inputs(x, state)
        rule = recurrent if x.shape[0] <= _RECURRENT_ROWS else chunked
        mixed, state.memory = rule(*rule_inputs, state.memory)
        state.ring = inputs[-state.ring.shape[0] :].clone()
        return self.finish(mixed, gate)

    def ahead(self, x: Tensor, state: DeltaState) -> tuple[Tensor, DeltaRows]:
        """As `causal` for one block of rows, but `state` is only read; what the rows would do to it comes back."""
        rule_inputs, inputs, gate = self._rule_inputs(x, state)
        mixed, writes = one_chunk(*rule_inputs, state.memory)
        return self.finish(mixed, gate), DeltaRows(inputs, writes)

    def _rule_inputs(self, x: Tensor, state: DeltaState) -> tuple[RuleInputs, Tensor, Tensor]:
        """Query, key, value, log decay and beta of rows x [n, hidden]; the convolution's inputs; the gate."""
        raw, gate, step, beta = self.project(x)
        inputs = torch.cat((state.ring, raw))
        query, key, value = self.heads(F.silu(self.convolve(inputs)))
        query = query * self.key_head_dim**-0.5
        return (query, key, value, self.log_decay(step), wide(beta).sigmoid()), inputs, gate

    def preview(self, x: Tensor, state: DeltaState) -> Tensor:
        """Block rows x [block, hidden]; reads ring and memory."""
        return self.mix_block(x, state.ring, state.memory)

    def mix_block(self, x: Tensor, ring: Tensor, memory: Tensor) -> Tensor:
        """The preview operator on rows x [..., block, hidden] with ring [..., kernel - 1, channels] and
        memory [..., value_heads, key_head_dim, value_head_dim]."""
        raw, gate, step, _ = self.project(x)
        rows = x.shape[-2]
        mixed = self.convolve(torch.cat((ring, raw), dim=-2))
        for distance in range(1, min(self.conv_right_weight.shape[-1], rows - 1) + 1):
            seen = F.pad(raw[..., distance:, :], (0, 0, 0, distance))
            mixed = mixed + seen * self.conv_right_weight[:, distance - 1]
        query, key, value = (part.transpose(-2, -3) for part in self.heads(F.silu(mixed)))
        history = self.bd_softmax_history_bias + self.bd_softmax_history_c * math.log(rows / TRAINED_BLOCK)
        inside = query @ key.transpose(-1, -2) * self.bd_softmax_logit_scale.float()[:, None, None]
        slot = history.float()[:, None, None].expand(*inside.shape[:-1], 1)
        weights = torch.cat((inside, slot), dim=-1).softmax(-1)
        decay = self.log_decay(step).exp().transpose(-1, -2)[..., None]  # [..., heads, block, 1]
        recalled = decay * (query * self.key_head_dim**-0.5) @ memory
        mixed = weights[..., :-1] @ value + weights[..., -1:] * recalled
        return self.finish(mixed.transpose(-2, -3), gate)

    def convolve(self, inputs: Tensor) -> Tensor:
        """Depthwise causal convolution of inputs [..., kernel - 1 + n, channels], to [..., n, channels]."""
        weight = self.conv1d.weight[:, 0]
        rows = inputs.shape[-2] - weight.shape[-1] + 1
        mixed = inputs[..., :rows, :] * weight[:, 0]
        for tap in range(1, weight.shape[-1]):
            mixed = mixed + inputs[..., tap : tap + rows, :] * weight[:, tap]
        return mixed

    def heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised queries and keys [..., n, value_heads, key_head_dim] (repeated to the value heads) and values
        [..., n, value_heads, value_head_dim] in float32 from convolved rows [..., n, channels]."""
        query, key, value = wide(mixed).split((self.key_dim, self.key_dim, self.value_dim), dim=-1)
        repeats = self.value_heads // self.key_heads

        def spread(x: Tensor) -> Tensor:
            return l2_norm(x.unflatten(-1, (self.key_heads, -1))).repeat_interleave(repeats, dim=-2)

        return spread(query), spread(key), value.unflatten(-1, (self.value_heads, -1))

    def log_decay(self, step: Tensor) -> Tensor:
        """log of the memory's decay at each row, float32, never positive; step [..., n, value_heads]."""
        return -self.A_log.float().exp() * F.softplus(wide(step) + self.dt_bias.float())

    def finish(self, mixed: Tensor, gate: Tensor) -> Tensor:
        """Norm, gate and project mixed values [..., n, value_heads, value_head_dim] to [..., n, hidden]."""
        gate = gate.unflatten(-1, (self.value_heads, -1))
        return self.out_proj(gated_rms_norm(mixed, gate, self.norm.weight, self.eps).flatten(-2))
