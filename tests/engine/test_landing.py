"""Rolling the committed state forward to exactly the accepted row of a causal pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.checkpoint import load_model
from engine.model.clover import Clover
from engine.state import AttentionState, DeltaState, State

TINY = Path(__file__).parents[1] / "data" / "tiny-clover"
PROMPT = [285, 296, 83, 293, 280, 25, 292, 282]
ROWS = [(37 * i) % 290 for i in range(16)]


@pytest.fixture(scope="module")
def model() -> Clover:
    return load_model(TINY / "fused-8-layers", dtype=torch.float64)


def committed(model: Clover, ids: list[int]) -> State:
    state = model.new_state()
    if ids:
        model.causal(torch.tensor(ids), state, "none")
    return state


def assert_same(one: State, other: State) -> None:
    assert one.length == other.length
    for a, b in zip(one.layers, other.layers, strict=True):
        if isinstance(a, AttentionState):
            assert isinstance(b, AttentionState) and a.length == b.length
            torch.testing.assert_close(a.clone().keys, b.clone().keys, atol=1e-9, rtol=1e-9)
            torch.testing.assert_close(a.clone().values, b.clone().values, atol=1e-9, rtol=1e-9)
        else:
            assert isinstance(b, DeltaState)
            torch.testing.assert_close(a.ring, b.ring, atol=1e-9, rtol=1e-9)
            torch.testing.assert_close(a.memory, b.memory, atol=1e-9, rtol=1e-9)


@torch.inference_mode()
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 15, 16])
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1], []])
def test_landing_on_any_row_is_a_commit_of_the_rows_before_it(model: Clover, prompt: list[int], count: int) -> None:
    state = committed(model, prompt)
    logits, landing = model.verify(torch.tensor(ROWS), state)
    assert_same(state, committed(model, prompt))  # nothing is committed yet
    landing.land(count)
    assert_same(state, committed(model, prompt + ROWS[:count]))
    following = model.causal(torch.tensor([5, 6]), state, "all")
    expected = model.causal(torch.tensor([5, 6]), committed(model, prompt + ROWS[:count]), "all")
    torch.testing.assert_close(following, expected, atol=1e-8, rtol=1e-8)
    whole = model.causal(torch.tensor(ROWS), committed(model, prompt), "all")
    torch.testing.assert_close(logits, whole, atol=1e-8, rtol=1e-8)


@torch.inference_mode()
def test_a_preview_leaves_the_state_alone_and_takes_its_own_coreset(model: Clover) -> None:
    state = committed(model, PROMPT)
    before = state.clone()
    block = torch.full((32,), model.config.mask_token_id)
    own = model.preview(block, state)
    assert_same(state, before)
    assert torch.equal(model.preview(block, state, model.config.coreset_top_p), own)
    assert not torch.equal(model.preview(block, state, 0.1), own)
    assert not torch.equal(model.preview(block, state, 1.0), own)
