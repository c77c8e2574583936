"""The state scan of engine.training.scan as two kernels: one program walks one stream's chunks, the state in registers.

Products are TF32 (float32 in the interpreter), sums float32. Sizes of a chunk and a head: powers of two from 16 on.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _forward(
    w, u, keys, decay, values, states, chunks, streams, N: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr
):  # pragma: no cover - compiled
    stream = tl.program_id(0)
    rows, k, v = tl.arange(0, N), tl.arange(0, DK), tl.arange(0, DV)
    at_keys = rows[:, None] * DK + k[None, :]
    at_values = rows[:, None] * DV + v[None, :]
    at_state = k[:, None] * DV + v[None, :]
    state = tl.zeros((DK, DV), tl.float32)
    for c in range(chunks):
        place = (c * streams + stream).to(tl.int64)
        tl.store(states + place * DK * DV + at_state, state)
        w_c = tl.load(w + place * N * DK + at_keys)
        d = tl.load(u + place * N * DV + at_values) - tl.dot(w_c, state)
        tl.store(values + place * N * DV + at_values, d)
        k_c = tl.load(keys + place * N * DK + at_keys)
        state = state * tl.load(decay + place) + tl.dot(tl.trans(k_c), d)


@triton.jit
def _backward(
    w, keys, decay, values, states, from_values, from_states, grad_w, grad_u, grad_keys, grad_decay,
    chunks, streams, N: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
):  # fmt: skip  # pragma: no cover - compiled
    stream = tl.program_id(0)
    rows, k, v = tl.arange(0, N), tl.arange(0, DK), tl.arange(0, DV)
    at_keys = rows[:, None] * DK + k[None, :]
    at_values = rows[:, None] * DV + v[None, :]
    at_state = k[:, None] * DV + v[None, :]
    after = tl.zeros((DK, DV), tl.float32)  # gradient of the state that leaves the chunk
    for step in range(chunks):
        place = ((chunks - 1 - step) * streams + stream).to(tl.int64)
        k_c = tl.load(keys + place * N * DK + at_keys)
        total = tl.load(from_values + place * N * DV + at_values) + tl.dot(k_c, after)
        tl.store(grad_u + place * N * DV + at_values, total)
        state = tl.load(states + place * DK * DV + at_state)
        tl.store(grad_decay + place, tl.sum(after * state))
        tl.store(grad_w + place * N * DK + at_keys, -tl.dot(total, tl.trans(state)))
        d = tl.load(values + place * N * DV + at_values)
        tl.store(grad_keys + place * N * DK + at_keys, tl.dot(d, tl.trans(after)))
        w_c = tl.load(w + place * N * DK + at_keys)
        after = tl.load(from_states + place * DK * DV + at_state) + after * tl.load(decay + place)
        after -= tl.dot(tl.trans(w_c), total)


def scan_forward(w: Tensor, u: Tensor, keys: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    """D and the chunk-start states, as engine.training.scan.state_scan."""
    w, u, keys, decay = (x.contiguous() for x in (w, u, keys, decay))
    chunks, streams, n, dv = u.shape
    values = torch.empty_like(u)
    states = u.new_empty(chunks, streams, w.shape[-1], dv)
    _forward[(streams,)](w, u, keys, decay, values, states, chunks, streams, n, w.shape[-1], dv, num_warps=4)  # pyright: ignore[reportCallIssue]
    return values, states


def scan_backward(
    w: Tensor, keys: Tensor, decay: Tensor, values: Tensor, states: Tensor, from_values: Tensor, from_states: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of w, u, keys and decay from those of D and of the states."""
    w, keys, decay, from_values, from_states = (x.contiguous() for x in (w, keys, decay, from_values, from_states))
    chunks, streams, dk, dv = states.shape
    grad_w, grad_u, grad_keys = torch.empty_like(w), torch.empty_like(values), torch.empty_like(keys)
    grad_decay = torch.empty_like(decay)
    _backward[(streams,)](
        w, keys, decay, values, states, from_values, from_states, grad_w, grad_u, grad_keys, grad_decay,
        chunks, streams, values.shape[-2], dk, dv, num_warps=4,  # pyright: ignore[reportCallIssue]
    )  # fmt: skip
    return grad_w, grad_u, grad_keys, grad_decay
