"""The chunked gated delta rule, with the pieces that a training step spends its time in written out by hand.

Notation of one chunk of n rows, one head: S state [dk, dv] at the chunk's start, G inclusive running sum of the
log decays, D the rank-one updates' values (S_t = e^{g_t} S_{t-1} + k_t d_t^T):

    (I + A) D = beta V - beta e^G K S,     A_ts = beta_t e^{G_t - G_s} (k_t . k_s) for s < t
    T = (I + A)^-1,  U = T beta V,  W = T beta e^G K,  D = U - W S
    S' = e^{G_n} S + (e^{G_n - G} K)^T D

T is exact: forward substitution or block doubling, never powers of A (off by a factor of 44 on repeated keys).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK = 32


def doubling_inverse(a: Tensor) -> Tensor:
    """(I + a)^-1 of strictly lower triangular a [..., n, n], n a power of two.

    Block doubling: with the inverses of the b x b diagonal blocks in M, M - M L M has those of 2b x 2b, L being
    a restricted to the lower off-diagonal blocks. Each step is exact.
    """
    n = a.shape[-1]
    index = torch.arange(n, device=a.device)
    inverse = torch.eye(n, device=a.device, dtype=a.dtype).expand_as(a)
    size = 1
    while size < n:
        block = index // size
        joins = (block[:, None] == block[None, :] + 1) & (block[:, None] % 2 == 1)
        inverse = inverse - inverse @ (a * joins) @ inverse
        size *= 2
    return inverse


@torch.library.custom_op("clover::unit_inverse", mutates_args=())
def unit_inverse(a: Tensor) -> Tensor:
    """(I + a)^-1 of strictly lower triangular a [N, n, n], float32."""
    if a.is_cuda:
        from engine.training.triton_inverse import substitution_inverse

        return substitution_inverse(a)
    return doubling_inverse(a)


@unit_inverse.register_fake
def _(a: Tensor) -> Tensor:
    return torch.empty_like(a)


def _keep_inverse(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _inverse_backward(ctx: Any, grad: Tensor) -> Tensor:
    (inverse,) = ctx.saved_tensors
    transposed = inverse.transpose(-1, -2)
    return -torch.tril(transposed @ grad @ transposed, diagonal=-1)


unit_inverse.register_autograd(_inverse_backward, setup_context=_keep_inverse)


class _TakeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return _gather(x, index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = ctx.saved_tensors
        return _gather(grads[0], inverse), None, None


def _gather(x: Tensor, index: Tensor) -> Tensor:
    present = (index >= 0).view(-1, *([1] * (x.dim() - 1)))
    return torch.where(present, x[index.clamp(min=0)], 0)


def take_rows(x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
    """x[index], zero where index is -1. inverse: for each row of x the one row of the result that took it, or -1.

    Knowing the inverse makes the backward a gather too, instead of atomic additions.
    """
    return _TakeRows.apply(x, index, inverse)  # type: ignore[no-any-return]


class _StateScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor, u: Tensor, keys: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        if w.is_cuda:
            from engine.training.triton_scan import scan_forward
        else:
            scan_forward = _scan_forward
        values, states = scan_forward(w, u, keys, decay)
        ctx.save_for_backward(w, keys, decay, states, values)
        return values, states

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        w, keys, decay, states, values = ctx.saved_tensors
        if w.is_cuda:
            from engine.training.triton_scan import scan_backward
        else:
            scan_backward = _scan_backward
        return scan_backward(w, keys, decay, values, states, *grads)


def _scan_forward(w: Tensor, u: Tensor, keys: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    states = w.new_zeros(u.shape[0], u.shape[1], w.shape[-1], u.shape[-1])
    values = torch.empty_like(u)
    for c in range(u.shape[0]):
        values[c] = u[c] - w[c] @ states[c]
        if c + 1 < u.shape[0]:
            states[c + 1] = states[c] * decay[c, :, None, None] + keys[c].transpose(-1, -2) @ values[c]
    return values, states


def _scan_backward(
    w: Tensor, keys: Tensor, decay: Tensor, values: Tensor, states: Tensor, from_values: Tensor, from_states: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    after = torch.zeros_like(states)  # gradient of the state that leaves each chunk
    total = torch.empty_like(values)
    for c in reversed(range(states.shape[0])):
        total[c] = from_values[c] + keys[c] @ after[c]
        if c:
            carried = from_states[c] + after[c] * decay[c, :, None, None]
            after[c - 1] = carried - w[c].transpose(-1, -2) @ total[c]
    grad_w = -(total @ states.transpose(-1, -2))
    grad_keys = values @ after.transpose(-1, -2)
    return grad_w, total, grad_keys, (after * states).sum((-1, -2))


def state_scan(w: Tensor, u: Tensor, keys: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    """The only sequential part: D of every chunk and the state at every chunk's start.

    Chunk-major: w, keys (= e^{G_n - G} K) [chunks, streams, n, dk], u [chunks, streams, n, dv],
    decay (= e^{G_n}) [chunks, streams]; a stream is one head of one example, states start at zero.
    Returns D [chunks, streams, n, dv] and states [chunks, streams, dk, dv].
    """
    return _StateScan.apply(w, u, keys, decay)  # type: ignore[no-any-return]


def chunk_terms(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, compute: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Everything of the chunks that needs no state. All [N, heads, n, ...] float32, q already scaled.

    q, k [..., n, dk], v [..., n, dv], g, beta [..., n]. Returns w, u, e^{G_n - G} K, e^{G_n}, the rows' own
    attention tril(q k^T e^{G_t - G_s}) [..., n, n] and G [..., n]. compute: dtype of the products' operands.
    """

    def product(x: Tensor, y: Tensor) -> Tensor:
        dtype = compute or g.dtype
        return (x.to(dtype) @ y.to(dtype)).to(g.dtype)

    n = q.shape[-2]
    total = g.cumsum(-1)
    lower = torch.ones(n, n, device=q.device, dtype=torch.bool).tril()
    gap = (total[..., :, None] - total[..., None, :]).masked_fill(~lower, -torch.inf).exp()
    a = (beta[..., None] * product(k, k.transpose(-1, -2)) * gap).tril(-1)
    inverse = unit_inverse(a.flatten(0, -3)).view_as(a)
    w = product(inverse, k * (beta * total.exp())[..., None])
    u = product(inverse, v * beta[..., None])
    keys = k * (total[..., -1:] - total).exp()[..., None]
    own = product(q, k.transpose(-1, -2)) * gap
    return w, u, keys, total[..., -1].exp(), own, total


def gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs [E, L, heads, dv] and chunk-start states [E, L // 32, heads, dk, dv] of E sequences, for checks.

    q, k [E, L, heads, dk] (q scaled), v [E, L, heads, dv], g, beta [E, L, heads]; L a multiple of 32.
    """
    examples, length, heads, dv = v.shape
    chunks = length // CHUNK

    def split(x: Tensor) -> Tensor:
        rows = x.view(examples, chunks, CHUNK, heads, -1).permute(1, 0, 3, 2, 4)
        return rows.reshape(chunks * examples, heads, CHUNK, -1)

    q, k, v = split(q), split(k), split(v)
    w, u, keys, decay, own, total = chunk_terms(q, k, v, split(g)[..., 0], split(beta)[..., 0])

    def streams(x: Tensor) -> Tensor:
        return x.view(chunks, examples * heads, *x.shape[2:])

    values, states = state_scan(streams(w), streams(u), streams(keys), streams(decay))
    values, states = values.view_as(v), states.view(chunks * examples, heads, -1, dv)
    out = total.exp()[..., None] * (q @ states) + own @ values
    out = out.view(chunks, examples, heads, CHUNK, dv).permute(1, 0, 3, 2, 4).reshape(examples, length, heads, dv)
    return out, states.view(chunks, examples, heads, -1, dv).transpose(0, 1)
