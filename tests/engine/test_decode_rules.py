"""The rules of block decoding and of causal decoding, on a model whose logits a test can set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.autoregressive import AutoregressiveDecoder
from engine.decode.controls import Controls
from engine.decode.diffusion import DiffusionDecoder
from engine.decode.run import Decoder, Run, Step
from engine.params import ControlSettings, DecodeSettings

VOCAB, MASK, STOP = 12, 11, 10
BLOCK = 4
SETTINGS = DecodeSettings(
    mode="diffusion",
    block_size=BLOCK,
    threshold=0.5,
    max_new_tokens=64,
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    seed=0,
    early_exit=False,
    controls=ControlSettings(mask_token_id=MASK, stop_ids=(STOP,)),
)


class TableModel:
    """Logits are any function of the committed tokens and the block; the state is the list of committed tokens."""

    def __init__(self, block_logits: Callable[[list[int], list[int]], torch.Tensor]) -> None:
        self._block_logits = block_logits
        self.previews: list[list[int]] = []

    def causal(self, tokens: torch.Tensor, state: list[int], logits: str = "last") -> torch.Tensor | None:
        state.extend(tokens.tolist())
        return self._block_logits(list(state), [MASK])[:1] if logits == "last" else None

    def preview(self, tokens: torch.Tensor, state: list[int], top_p: float | None = None) -> torch.Tensor:
        self.previews.append(tokens.tolist())
        return self._block_logits(list(state), tokens.tolist())


def fixed_rows(*rows: dict[int, float]) -> TableModel:
    """Row r always has the probabilities of `rows[r]`; what they leave over is spread evenly."""
    p = torch.zeros(len(rows), VOCAB)
    for r, wanted in enumerate(rows):
        p[r, :MASK] = (1 - sum(wanted.values())) / (MASK - len(wanted))
        for token, probability in wanted.items():
            p[r, token] = probability
    return TableModel(lambda state, block: p[: len(block)].log())


def noisy(seed: int, sharpness: float = 3.0) -> TableModel:
    """Random logits that depend on everything committed and on the whole block."""

    def logits(state: list[int], block: list[int]) -> torch.Tensor:
        key = hash((seed, tuple(state), tuple(block))) % 2**31
        return torch.randn(len(block), VOCAB, generator=torch.Generator().manual_seed(key)) * sharpness

    return TableModel(logits)


def run_of(model: TableModel, settings: DecodeSettings, logits: torch.Tensor | None = None) -> Run:
    return Run(model, [], settings=settings, controls=Controls(settings.controls, VOCAB), logits=logits)


def steps_of(decoder: Decoder) -> list[Step]:
    steps = [decoder.step()]
    while not steps[-1].finish:
        steps.append(decoder.step())
    return steps


def diffusion(model: TableModel, **changes: object) -> tuple[Run, list[Step]]:
    run = run_of(model, replace(SETTINGS, **changes))
    return run, steps_of(DiffusionDecoder(run))


def test_threshold_is_strict() -> None:
    half = 0.5 if float(torch.tensor(0.5).log().exp()) == 0.5 else None
    assert half is not None
    model = fixed_rows({0: 0.5}, {1: 0.6}, {2: 0.5}, {3: 0.9})
    _, steps = diffusion(model, max_new_tokens=4)
    assert [step.update.tokens for step in steps if step.update] == [
        (MASK, 1, MASK, 3),
        (0, 1, MASK, 3),  # none is above: the first of the equally sure rows
        (0, 1, 2, 3),
    ]


def test_first_maximum_wins() -> None:
    _, steps = diffusion(fixed_rows({7: 0.3, 2: 0.3}, {1: 0.9}, {1: 0.9}, {1: 0.9}), max_new_tokens=4)
    assert steps[-1].tokens[0] == 2


def test_fixed_rows_never_change_and_each_pass_fixes_one() -> None:
    run, steps = diffusion(noisy(1), max_new_tokens=12, controls=ControlSettings(mask_token_id=MASK))
    previous: dict[int, tuple[int, ...]] = {}
    for step in steps:
        assert step.update is not None
        now = step.update.tokens
        before = previous.get(step.update.block, (MASK,) * BLOCK)
        assert all(b in (MASK, n) for b, n in zip(before, now, strict=True))
        assert now.count(MASK) < before.count(MASK)
        previous[step.update.block] = now
    assert len(run.response) == 12


def test_stop_counts_only_when_the_block_is_resolved() -> None:
    model = fixed_rows({0: 0.9}, {STOP: 0.9}, {1: 0.4}, {2: 0.3})
    run, steps = diffusion(model)
    assert [step.finish for step in steps] == ["", "", "stop"]
    assert run.response == [0, STOP]
    assert run.state == []  # the stopped block is not committed
    assert sum(step.commits for step in steps) == 0
    early = diffusion(model, early_exit=True)
    assert early[0].response == run.response
    assert len(early[1]) == 1


def test_cut_at_max_new_tokens() -> None:
    run, steps = diffusion(fixed_rows({0: 0.9}, {1: 0.9}, {2: 0.9}, {3: 0.9}), max_new_tokens=6)
    assert run.response == [0, 1, 2, 3, 0, 1]
    assert run.state == [0, 1, 2, 3]
    assert [step.finish for step in steps] == ["", "length"]
    assert [len(preview) for preview in run.model.previews] == [BLOCK, BLOCK]  # a block always has all its rows


def test_mask_and_suppressed_ids_are_never_picked() -> None:
    controls = replace(SETTINGS.controls, suppressed=(5,))
    rows = [{MASK: 0.0, 5: 0.9, 3: 0.05}] * 4
    p = torch.full((4, VOCAB), 1e-3)
    for r, wanted in enumerate(rows):
        for token, probability in wanted.items():
            p[r, token] = probability
    p[:, MASK] = 10.0
    run, _ = diffusion(TableModel(lambda state, block: p.log()), controls=controls, max_new_tokens=4)
    assert run.response == [3, 3, 3, 3]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 20), st.floats(0, 1), st.sampled_from([1, 2, 4]))
def test_early_exit_never_changes_the_text(seed: int, length: int, threshold: float, block: int) -> None:
    changes = {"max_new_tokens": length, "threshold": threshold, "block_size": block}
    slow, slow_steps = diffusion(noisy(seed), **changes)
    fast, fast_steps = diffusion(noisy(seed), **changes, early_exit=True)
    assert fast.response == slow.response
    assert fast.state == slow.state
    assert fast_steps[-1].finish == slow_steps[-1].finish
    assert len(fast_steps) <= len(slow_steps)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_sampling_repeats_with_its_seed(seed: int) -> None:
    def tokens(seed: int) -> list[int]:
        return diffusion(noisy(5, sharpness=0.5), temperature=1.0, seed=seed, max_new_tokens=16)[0].response

    assert tokens(seed) == tokens(seed)


def test_seeds_differ() -> None:
    drawn = {
        tuple(diffusion(noisy(5, sharpness=0.1), temperature=1.0, seed=seed, max_new_tokens=8)[0].response)
        for seed in range(8)
    }
    assert len(drawn) > 1


def test_causal_tokens_are_each_committed_but_the_last() -> None:
    model = noisy(3)
    first = model.causal(torch.tensor([0]), [])
    run = run_of(model, replace(SETTINGS, mode="autoregressive", max_new_tokens=6), first)
    steps = steps_of(AutoregressiveDecoder(run))
    assert sum(step.commits for step in steps) == len(run.response) - 1
    assert run.state == run.response[:-1]


def test_a_run_may_change_mode_at_a_block_boundary() -> None:
    """Whatever mode wrote the tokens, the state behind the next pass holds exactly those tokens."""
    model = fixed_rows({0: 0.9}, {1: 0.9}, {2: 0.9}, {3: 0.9})
    run = run_of(model, replace(SETTINGS, max_new_tokens=10))
    DiffusionDecoder(run).step()
    assert run.response == [0, 1, 2, 3]
    AutoregressiveDecoder(run).step()
    assert run.state == [0, 1, 2, 3]
    assert run.response == [0, 1, 2, 3, 0]
    DiffusionDecoder(run).step()
    assert run.state == [0, 1, 2, 3, 0]


@pytest.mark.parametrize("mode", [DiffusionDecoder, AutoregressiveDecoder])
def test_stop_at_the_very_last_token_is_a_stop(mode: type) -> None:
    rows = fixed_rows({STOP: 0.9}, {1: 0.9}, {2: 0.9}, {3: 0.9})
    run = run_of(rows, replace(SETTINGS, max_new_tokens=1), rows.causal(torch.tensor([0]), []))
    assert steps_of(mode(run))[-1].finish == "stop"
    assert run.response == [STOP]
