"""The causal path is transformers' Qwen3.5-MoE, and reading in pieces is reading at once."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import CloverConfig
from engine.model.clover import Clover
from engine.model.delta_rule import chunked, recurrent

transformers = pytest.importorskip("transformers")

SHAPES = {
    "alternating": {"full_attention_interval": 2, "num_hidden_layers": 4},
    "three-to-one": {"full_attention_interval": 4, "num_hidden_layers": 8},
    "wide-groups": {"num_attention_heads": 8, "num_key_value_heads": 2, "linear_num_key_heads": 2},
    "many-experts": {"num_experts": 16, "num_experts_per_tok": 5, "moe_intermediate_size": 24},
    "whole-rotary": {"partial_rotary_factor": 0.5, "head_dim": 32},
}


def fields(**changes: object) -> dict[str, object]:
    """config.json fields of a small model."""
    base: dict[str, object] = {
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "full_attention_interval": 2,
        "vocab_size": 211,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "partial_rotary_factor": 0.25,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 48,
        "max_position_embeddings": 512,
        "block_size": 32,
        "mask_token_id": 7,
    }
    base.update(changes)
    layers, every = int(str(base["num_hidden_layers"])), int(str(base["full_attention_interval"]))
    base["layer_types"] = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(layers)]
    half = int(int(str(base["head_dim"])) * float(str(base["partial_rotary_factor"]))) // 2
    base["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": base["partial_rotary_factor"],
        "mrope_interleaved": True,
        "mrope_section": [half - 2 * (half // 3), half // 3, half // 3],
    }
    return base


def pair(seed: int = 0, **changes: object) -> tuple[Clover, torch.nn.Module]:
    """The same random weights in both implementations, float32."""
    raw = fields(**changes)
    torch.manual_seed(seed)
    theirs = transformers.Qwen3_5MoeForCausalLM(transformers.Qwen3_5MoeTextConfig(**raw)).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            scale = 0.3 if parameter.dim() == 1 else 0.08
            parameter.copy_(
                torch.randn_like(parameter) * scale + (1.0 if name.endswith("linear_attn.norm.weight") else 0)
            )
    ours = Clover(CloverConfig.parse(raw)).eval()
    missing, unexpected = ours.load_state_dict(theirs.state_dict(), strict=False)
    assert not unexpected
    assert all("bd_softmax" in name or name.endswith("conv_right_weight") for name in missing)
    return ours, theirs


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_causal_logits(shape: str) -> None:
    ours, theirs = pair(**SHAPES[shape])
    tokens = torch.randint(0, 211, (150,))
    expected = theirs(tokens[None]).logits[0]
    assert expected.std() > 0.1
    logits = ours.causal(tokens, ours.new_state(), "all")
    assert (logits - expected).abs().max() <= 1e-4


@given(st.lists(st.integers(1, 90), min_size=1, max_size=5), st.integers(0, 3))
@settings(max_examples=12, deadline=None)
@torch.inference_mode()
def test_pieces_equal_the_whole(sizes: list[int], seed: int) -> None:
    ours, _ = pair(seed)
    tokens = torch.randint(0, 211, (sum(sizes),))
    whole = ours.causal(tokens, ours.new_state(), "all")
    state = ours.new_state()
    parts = [ours.causal(piece, state, "all") for piece in tokens.split(sizes)]
    assert state.length == len(tokens)
    assert (torch.cat(parts) - whole).abs().max() <= 1e-4  # type: ignore[arg-type]


@torch.inference_mode()
def test_a_preview_writes_nothing() -> None:
    ours, _ = pair()
    torch.manual_seed(1)
    for name, parameter in ours.named_parameters():
        if "bd_softmax" in name or name.endswith("conv_right_weight"):
            parameter.copy_(torch.randn_like(parameter))
    tokens = torch.randint(0, 211, (60,))
    state, untouched = ours.new_state(), ours.new_state()
    ours.causal(tokens[:40], state)
    ours.causal(tokens[:40], untouched)
    first = ours.preview(torch.full((32,), 7), state)
    second = ours.preview(torch.full((32,), 7), state)
    assert torch.equal(first, second)
    assert torch.equal(ours.causal(tokens[40:], state, "all"), ours.causal(tokens[40:], untouched, "all"))  # type: ignore[arg-type]


@torch.inference_mode()
def test_a_clone_is_independent() -> None:
    ours, _ = pair()
    tokens = torch.randint(0, 211, (60,))
    state = ours.new_state()
    ours.causal(tokens[:40], state)
    copy = state.clone()
    expected = ours.causal(tokens[40:], state, "all")
    assert torch.equal(ours.causal(tokens[40:], copy, "all"), expected)  # type: ignore[arg-type]


def test_the_chunked_rule_holds_where_keys_repeat() -> None:
    """Powers of the strictly lower part would be off by a factor of tens here."""
    torch.manual_seed(0)
    key = torch.nn.functional.normalize(torch.randn(1, 2, 16), dim=-1).expand(96, 2, 16).double()
    query, value = torch.randn(96, 2, 16).double(), torch.randn(96, 2, 16).double()
    decay, beta = torch.full((96, 2), -0.001).double(), torch.full((96, 2), 0.95).double()
    memory = torch.randn(2, 16, 16).double()
    exact, exact_memory = recurrent(query, key, value, decay, beta, memory)
    narrow = [x.float() for x in (query, key, value, decay, beta, memory)]
    outputs, final = chunked(*narrow)
    assert (outputs - exact).abs().max() < 1e-4
    assert (final - exact_memory).abs().max() < 1e-4
