"""Penalties and ramps against a plain, one-number-at-a-time reading of the reference's section 7."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.controls import Controls
from engine.decode.sampling import pick
from engine.generation_config import Ramp
from engine.params import ControlSettings, DecodeSettings

VOCAB = 9
MASK, STOPS, THINK_END = 8, (5, 6), 7
SETTINGS = DecodeSettings(
    mode="diffusion",
    block_size=4,
    threshold=0.5,
    max_new_tokens=64,
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    seed=0,
    early_exit=False,
    controls=ControlSettings(mask_token_id=MASK),
)


def by_hand(
    row: list[float], wanted: ControlSettings, response: list[int], position: int, block: list[int]
) -> list[float]:
    counts = Counter(response)
    out = list(row)
    for i in range(VOCAB):
        if i == wanted.mask_token_id or i in wanted.suppressed:
            out[i] = -math.inf
        if counts[i]:
            out[i] -= counts[i] * wanted.frequency_penalty
            out[i] -= wanted.presence_penalty
            r = wanted.repetition_penalty
            out[i] = out[i] * r if out[i] < 0 else out[i] / r

    def ramp(ramp: Ramp) -> float:
        return ramp.strength * min(max((position - ramp.start) / ramp.window, 0.0), 1.0)

    for i in wanted.stop_ids:
        out[i] += ramp(wanted.length_ramp)
    if THINK_END not in response and THINK_END not in block:
        out[THINK_END] += ramp(wanted.think_end_ramp)
    return out


ramps = st.builds(Ramp, st.sampled_from([0.0, 2.5]), st.integers(0, 10), st.integers(1, 10))
wanted_controls = st.builds(
    ControlSettings,
    mask_token_id=st.just(MASK),
    suppressed=st.sampled_from([(), (1,)]),
    stop_ids=st.just(STOPS),
    presence_penalty=st.sampled_from([0.0, 0.9, -0.5]),
    frequency_penalty=st.sampled_from([0.0, 0.3]),
    repetition_penalty=st.sampled_from([1.0, 1.05, 0.8]),
    length_ramp=ramps,
    think_end_ramp=ramps,
    think_end_token_id=st.just(THINK_END),
)


@settings(deadline=None)
@given(
    wanted_controls,
    st.lists(st.lists(st.integers(0, 7), max_size=4), max_size=4),
    st.lists(st.integers(0, 7), max_size=3),
    st.lists(st.floats(-20, 20, width=32), min_size=2 * VOCAB, max_size=2 * VOCAB),
    st.integers(1, 20),
)
def test_controls_follow_the_reference(
    wanted: ControlSettings, parts: list[list[int]], block: list[int], numbers: list[float], position: int
) -> None:
    controls = Controls(wanted, VOCAB)
    for part in parts:
        controls.commit(part)
    response = [token for part in parts for token in part]
    logits = torch.tensor(numbers).view(2, VOCAB)
    before = logits.clone()
    out = controls.apply(logits, torch.tensor([position, position + 3]), block)
    assert torch.equal(logits, before)
    for r in range(2):
        expected = by_hand(before[r].tolist(), wanted, response, position + 3 * r, block)
        torch.testing.assert_close(out[r], torch.tensor(expected), atol=1e-4, rtol=1e-5)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_ties_at_the_top_k_cut_stay() -> None:
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0]]).repeat(500, 1)
    ids, _ = pick(logits, replace(SETTINGS, temperature=1.0, top_k=2), generator())
    assert set(ids.tolist()) == {0, 1, 2}


def test_top_p_keeps_what_crosses_the_mass() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log().repeat(500, 1)
    for top_p, kept in ((0.4, {0}), (0.6, {0, 1}), (0.9, {0, 1, 2})):
        ids, _ = pick(logits, replace(SETTINGS, temperature=1.0, top_p=top_p), generator())
        assert set(ids.tolist()) == kept


@pytest.mark.parametrize("temperature", [0.0, 0.3, 2.0])
def test_confidence_is_the_probability_at_temperature_one(temperature: float) -> None:
    logits = torch.randn(50, 20, generator=generator())
    ids, confidence = pick(logits, replace(SETTINGS, temperature=temperature, top_k=3), generator())
    torch.testing.assert_close(confidence, logits.softmax(-1)[torch.arange(50), ids])


def test_draws_follow_the_temperature() -> None:
    logits = torch.tensor([[1.0, 0.0]]).repeat(20000, 1)
    ids, _ = pick(logits, replace(SETTINGS, temperature=0.5), generator())
    assert ids.float().mean().item() == pytest.approx(1 / (1 + math.exp(2)), abs=0.01)
