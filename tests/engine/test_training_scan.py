"""The training scan against the plain recurrence, also where inverting through powers of A goes wrong."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.training.scan import CHUNK, doubling_inverse, gated_delta_rule, take_rows


def recurrence(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """clover.md section 4, one token after the other; also the state before every chunk."""
    examples, length, heads, dv = v.shape
    state = v.new_zeros(examples, heads, k.shape[-1], dv)
    outputs, starts = [], []
    for t in range(length):
        if t % CHUNK == 0:
            starts.append(state)
        state = state * g[:, t, :, None, None].exp()
        delta = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], delta)
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1), torch.stack(starts, 1)


def inputs(constant_keys: bool, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    shape = (2, 3 * CHUNK, 2)
    q, k, v = (torch.randn(*shape, 8, generator=generator, dtype=dtype) for _ in range(3))
    if constant_keys:
        k = k[:, :1].expand_as(k).clone()
    q, k = torch.nn.functional.normalize(q, dim=-1), torch.nn.functional.normalize(k, dim=-1)
    g = -torch.rand(shape, generator=generator, dtype=dtype) * (0.001 if constant_keys else 0.3)
    beta = (
        torch.full(shape, 0.95, dtype=dtype) if constant_keys else torch.rand(shape, generator=generator, dtype=dtype)
    )
    return [q, k, v, g, beta]


@pytest.mark.parametrize("constant_keys", [False, True])
def test_scan_equals_the_recurrence(constant_keys: bool) -> None:
    arguments = inputs(constant_keys, torch.float32)
    out, states = gated_delta_rule(*arguments)
    expected, expected_states = recurrence(*arguments)
    torch.testing.assert_close(out, expected, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(states, expected_states, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("constant_keys", [False, True])
def test_scan_gradients_equal_the_recurrence(constant_keys: bool) -> None:
    gradients = []
    for function in (gated_delta_rule, recurrence):
        arguments = [x.requires_grad_() for x in inputs(constant_keys, torch.float64)]
        out, states = function(*arguments)
        (out.sin().sum() + (states * states).sum()).backward()
        gradients.append([x.grad for x in arguments])
    for ours, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-9, rtol=1e-8)


def test_doubling_inverse_is_exact_on_repeated_keys() -> None:
    a = torch.full((CHUNK, CHUNK), 0.95, dtype=torch.float32).tril(-1)
    product = doubling_inverse(a) @ (torch.eye(CHUNK) + a)
    torch.testing.assert_close(product, torch.eye(CHUNK), atol=1e-5, rtol=0)


def test_take_rows_gathers_both_ways() -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    index, inverse = torch.tensor([2, -1, 0]), torch.tensor([2, -1, 0, -1])
    assert torch.autograd.gradcheck(lambda t: take_rows(t, index, inverse), (x,))
