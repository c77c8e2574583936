"""What training computes is what the engine computes: without this, trained weights mean nothing there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.config import CloverConfig
from engine.model.clover import Clover
from engine.training.forward import forward
from engine.training.layout import lay_out

MASK = 60


def tiny_config(**changes: object) -> CloverConfig:
    fields: dict[str, object] = {
        "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 4,
        "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"],
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 24, "max_position_embeddings": 512, "block_size": 32,
        "mask_token_id": MASK, "tie_word_embeddings": True, **changes,
    }  # fmt: skip
    return CloverConfig.parse(fields)


@pytest.fixture(scope="module")
def model() -> Clover:
    torch.manual_seed(3)
    model = Clover(tiny_config())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.15 if parameter.dim() > 1 else 0.4))
    return model


def logits_of(model: Clover, tokens: Tensor, noisy_tokens: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    layout = lay_out(starts, tokens.shape[1], 32, taps=3)
    weights = {name: value.detach() for name, value in model.named_parameters()}
    flat = torch.cat((tokens.flatten(), noisy_tokens.flatten()))
    hidden = forward(weights, model.config, flat, layout, compute=torch.float32).hidden
    logits = model.head(hidden).detach()
    clean = logits[: layout.clean].view(*tokens.shape, -1)
    return clean, logits[layout.clean :].view(*starts.shape, 32, -1)


def test_clean_rows_equal_the_causal_pass_and_noisy_blocks_the_preview(model: Clover) -> None:
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(0, 60, (3, 96), generator=generator)
    tokens[1, :40] = 7  # repeated keys
    starts = torch.tensor([[0, 1, 33], [31, 32, 64], [2, 50, 63]])
    noisy = torch.randint(0, 60, (3, 3, 32), generator=generator)
    noisy[torch.rand(noisy.shape, generator=generator) < 0.6] = MASK
    clean, blocks = logits_of(model, tokens, noisy, starts)
    for row in range(3):
        expected = model.causal(tokens[row], model.new_state(), logits="all")
        torch.testing.assert_close(clean[row], expected, atol=2e-4, rtol=1e-3)
        for column in range(3):
            state = model.new_state()
            if starts[row, column]:
                model.causal(tokens[row, : starts[row, column]], state, logits="none")
            expected = model.preview(noisy[row, column], state)
            torch.testing.assert_close(blocks[row, column], expected, atol=2e-4, rtol=1e-3)


def test_padding_and_other_blocks_change_nothing(model: Clover) -> None:
    generator = torch.Generator().manual_seed(6)
    tokens = torch.randint(0, 60, (2, 64), generator=generator)
    starts = torch.tensor([[10, 10], [20, 5]])
    noisy = torch.full((2, 2, 32), MASK)
    clean, blocks = logits_of(model, tokens, noisy, starts)
    torch.testing.assert_close(blocks[0, 0], blocks[0, 1])
    padded = torch.cat((tokens, torch.zeros(2, 32, dtype=tokens.dtype)), dim=1)
    noisy[:, 1] = 4
    clean_again, blocks_again = logits_of(model, padded, noisy, starts)
    torch.testing.assert_close(clean, clean_again[:, :64], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(blocks[:, 0], blocks_again[:, 0], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(blocks[:, 1], blocks_again[:, 1])
