"""The training forward: clean rows causally and noisy blocks by the preview operator, in one pass over flat rows.

It reads the parameters of engine.model.Clover by name and computes what `causal` and `preview` compute (a test
holds it to that); it differs only in doing many examples and blocks at once. Each piece between the two operations
that depend on a bucket's shape (attention, state scan) is compiled once. `compute` is the dtype of the big products:
bfloat16 on a GPU, float32 in tests. Norms, router, softmax and everything of the scan are float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.config import FULL, CloverConfig
from engine.model.norms import gated_rms_norm, rms_norm
from engine.model.rope import apply_rope, rope_table
from engine.training.attention import attend_clean, attend_noisy
from engine.training.delta import DeltaShape, clean_terms, delta_output
from engine.training.experts import mixture
from engine.training.layout import Layout
from engine.training.scan import state_scan

Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Forward:
    """hidden [rows, hidden]: before the final norm, clean rows first. balance: sum of the layers' routing losses."""

    hidden: Tensor
    balance: Tensor


@functools.cache
def piece(function: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    return torch.compile(function, dynamic=False) if compiled else function


def forward(
    weights: Weights,
    config: CloverConfig,
    tokens: Tensor,
    layout: Layout,
    *,
    compute: torch.dtype,
    compiled: bool = False,
) -> Forward:
    """Run token ids [clean + noisy rows] (mask ids where masked) through the trunk. weights: by checkpoint name."""
    hidden = F.embedding(tokens, weights["model.embed_tokens.weight"]).to(compute)
    rope = rope_table(layout.positions, config.rotary_dim, config.rope_theta)
    balance = hidden.new_zeros((), dtype=torch.float32)
    for number, kind in enumerate(config.layer_types):
        prefix = f"model.layers.{number}."
        layer = {name[len(prefix) :]: value for name, value in weights.items() if name.startswith(prefix)}
        mixer = _attention if kind == FULL else _delta
        hidden = mixer(layer, config, hidden, rope, layout, compiled)
        hidden, loss = piece(_experts, compiled)(
            hidden,
            [layer[name] for name in _EXPERT_WEIGHTS],
            config.num_experts_per_tok,
            config.norm_topk_prob,
            config.rms_norm_eps,
        )
        balance = balance + loss
    return Forward(hidden, balance)


_EXPERT_WEIGHTS = (
    "post_attention_layernorm.weight",
    "mlp.gate.weight",
    "mlp.experts.gate_up_proj",
    "mlp.experts.down_proj",
    "mlp.shared_expert.gate_proj.weight",
    "mlp.shared_expert.up_proj.weight",
    "mlp.shared_expert.down_proj.weight",
    "mlp.shared_expert_gate.weight",
)


def _experts(
    hidden: Tensor, weights: Sequence[Tensor], top_k: int, renormalise: bool, eps: float
) -> tuple[Tensor, Tensor]:
    norm, router, gate_up, down, shared_gate, shared_up, shared_down, shared_scale = weights
    mixed, loss = mixture(
        rms_norm(hidden, norm, eps), router, gate_up, down, shared_gate, shared_up, shared_down, shared_scale,
        top_k, renormalise,
    )  # fmt: skip
    return hidden + mixed, loss


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x times weight^T in x's dtype."""
    return F.linear(x, weight.to(x.dtype))


def _attention(
    layer: Weights,
    config: CloverConfig,
    hidden: Tensor,
    rope: tuple[Tensor, Tensor],
    layout: Layout,
    compiled: bool,
) -> Tensor:
    query, key, value, gate = piece(_attention_inputs, compiled)(
        hidden,
        layer["input_layernorm.weight"],
        *(layer[f"self_attn.{name}.weight"] for name in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm")),
        *rope,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.rms_norm_eps,
    )
    clean, groups = layout.clean, layout.examples

    def by_example(x: Tensor) -> Tensor:
        return x.view(groups, -1, *x.shape[1:]).transpose(1, 2)

    key_clean, value_clean = by_example(key[:clean]), by_example(value[:clean])
    mixed = attend_clean(by_example(query[:clean]), key_clean, value_clean)
    mixed = mixed.transpose(1, 2).reshape(clean, -1)
    if layout.noisy:
        noisy = attend_noisy(
            by_example(query[clean:]),
            torch.cat((key_clean, by_example(key[clean:])), dim=2),
            torch.cat((value_clean, by_example(value[clean:])), dim=2),
            layout.mask,
        )
        mixed = torch.cat((mixed, noisy.transpose(1, 2).reshape(layout.noisy, -1)))
    return piece(_attention_output, compiled)(hidden, mixed, gate, layer["self_attn.o_proj.weight"])


def _attention_inputs(
    hidden: Tensor, norm: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, q_norm: Tensor, k_norm: Tensor,
    cos: Tensor, sin: Tensor, heads: int, kv_heads: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    x = rms_norm(hidden, norm, eps)
    query, gate = linear(x, wq).unflatten(-1, (heads, -1)).chunk(2, dim=-1)
    key = linear(x, wk).unflatten(-1, (kv_heads, -1))
    value = linear(x, wv).unflatten(-1, (kv_heads, -1))
    query = apply_rope(rms_norm(query, q_norm, eps), cos, sin)
    key = apply_rope(rms_norm(key, k_norm, eps), cos, sin)
    return query, key, value, gate.flatten(-2)


def _attention_output(hidden: Tensor, mixed: Tensor, gate: Tensor, wo: Tensor) -> Tensor:
    return hidden + linear(mixed * gate.sigmoid(), wo)


def _delta(
    layer: Weights,
    config: CloverConfig,
    hidden: Tensor,
    rope: tuple[Tensor, Tensor],
    layout: Layout,
    compiled: bool,
) -> Tensor:
    part = {name[len("linear_attn.") :]: value for name, value in layer.items() if name.startswith("linear_attn.")}
    shape = DeltaShape.of(config)
    projected = piece(_delta_inputs, compiled)(
        hidden,
        layer["input_layernorm.weight"],
        *(part[f"in_proj_{name}.weight"] for name in ("qkv", "z", "a", "b")),
        part["A_log"],
        part["dt_bias"],
        config.rms_norm_eps,
    )
    raw, gate, log_decay, beta = projected
    terms = piece(clean_terms, compiled)(
        raw[: layout.clean], log_decay[: layout.clean], beta[: layout.clean], part["conv1d.weight"],
        layout.order, layout.order_inverse, layout.before, layout.after, shape,
    )  # fmt: skip
    chunks, streams = layout.length // 32, layout.examples * shape.value_heads

    def by_time(x: Tensor) -> Tensor:
        return x.view(chunks, streams, *x.shape[2:])

    values, states = state_scan(by_time(terms.w), by_time(terms.u), by_time(terms.keys), by_time(terms.decay))
    mixed = piece(delta_output, compiled)(
        terms,
        values.view(-1, shape.value_heads, *values.shape[2:]),
        states.view(-1, shape.value_heads, *states.shape[2:]),
        raw[layout.clean :],
        log_decay[layout.clean :],
        *(part[name] for name in ("conv1d.weight", "conv_right_weight")),
        *(part[f"bd_softmax_{name}"] for name in ("logit_scale", "history_bias", "history_c")),
        layout.order_inverse, layout.order, layout.ring, layout.chunk, layout.inside, layout.block, shape,
    )  # fmt: skip
    return piece(_delta_finish, compiled)(
        hidden, mixed, gate, part["norm.weight"], part["out_proj.weight"], config.rms_norm_eps
    )


def _delta_inputs(
    hidden: Tensor, norm: Tensor, wqkv: Tensor, wz: Tensor, wa: Tensor, wb: Tensor,
    a_log: Tensor, dt_bias: Tensor, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    x = rms_norm(hidden, norm, eps)
    log_decay = -a_log.float().exp() * F.softplus(linear(x, wa).float() + dt_bias.float())
    return linear(x, wqkv), linear(x, wz), log_decay, linear(x, wb).float().sigmoid()


def _delta_finish(hidden: Tensor, mixed: Tensor, gate: Tensor, norm: Tensor, wo: Tensor, eps: float) -> Tensor:
    gate = gate.unflatten(-1, (mixed.shape[-2], -1))
    return hidden + linear(gated_rms_norm(mixed, gate, norm, eps).flatten(-2), wo)
