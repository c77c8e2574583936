"""The gated delta rule: S <- exp(g) S; d = beta (v - S^T k); S <- S + k d^T; o = S^T q, row by row.

`chunked` computes the same in chunks (Yang et al., "Gated Delta Networks", 2024): inside a chunk the rows' corrections
u solve a unit lower triangular system, between chunks only the state travels. The system is solved by substitution;
powers of the strictly lower part lose all digits where keys repeat.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


def recurrent(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, memory: Tensor
) -> tuple[Tensor, Tensor]:
    """Row after row. query, key [n, heads, dk], value [n, heads, dv], decay (log) and beta [n, heads],
    memory [heads, dk, dv], all float32; returns outputs [n, heads, dv] and the memory after the last row."""
    outputs = []
    for q, k, v, g, b in zip(query, key, value, decay.exp(), beta, strict=True):
        memory = memory * g[:, None, None]
        delta = (v - (memory * k[..., None]).sum(1)) * b[:, None]
        memory = memory + k[..., None] * delta[:, None, :]
        outputs.append((memory * q[..., None]).sum(1))
    return torch.stack(outputs), memory


def chunked(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, memory: Tensor, chunk: int = 64
) -> tuple[Tensor, Tensor]:
    """The same as `recurrent`, in chunks of `chunk` rows."""
    rows = query.shape[0]
    chunk = min(chunk, rows)
    padding = -rows % chunk
    if padding:  # rows of beta 0 and decay 0 leave the memory as it is
        query, key, value = (F.pad(x, (0, 0, 0, 0, 0, padding)) for x in (query, key, value))
        decay, beta = (F.pad(x, (0, 0, 0, padding)) for x in (decay, beta))
    # [chunks, heads, rows, dim]
    query, key, value = (x.unflatten(0, (-1, chunk)).transpose(1, 2) for x in (query, key, value))
    decay, beta = (x.unflatten(0, (-1, chunk)).transpose(1, 2) for x in (decay, beta))
    total = decay.cumsum(-1)
    between = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
    scores = key @ key.transpose(-1, -2) * between * beta[..., None]
    right = torch.cat((value * beta[..., None], key * (beta * total.exp())[..., None]), dim=-1)
    # only the part below the diagonal is read: (I + tril(scores, -1)) solution = right
    solution = torch.linalg.solve_triangular(scores, right, upper=False, unitriangular=True)
    written, read = solution.split((value.shape[-1], key.shape[-1]), dim=-1)
    inside = query @ key.transpose(-1, -2) * between
    from_memory = query * total.exp()[..., None]
    to_memory = key * (total[..., -1:] - total).exp()[..., None]
    outputs = []
    for c in range(query.shape[0]):
        new = written[c] - read[c] @ memory
        outputs.append(from_memory[c] @ memory + inside[c] @ new)
        memory = memory * total[c, :, -1].exp()[:, None, None] + to_memory[c].transpose(-1, -2) @ new
    return torch.stack(outputs).transpose(1, 2).flatten(0, 1)[:rows], memory


@dataclass(frozen=True)
class Writes:
    """What each row of a chunk adds to the memory, for landing on any row of it.

    keys [heads, n, dk]; values, the rows' corrections u [heads, n, dv]; total, the cumulated log decay [heads, n].
    """

    keys: Tensor
    values: Tensor
    total: Tensor

    def after(self, memory: Tensor, rows: int) -> Tensor:
        """The memory [heads, dk, dv] after the first `rows` (at least 1) rows, from the one before the chunk:
        S_c = e^(G_c) S_0 + sum over t <= c of e^(G_c - G_t) k_t u_t^T, all sums in one product."""
        end = self.total[:, rows - 1 : rows]
        keys = self.keys[:, :rows] * (end - self.total[:, :rows]).exp()[..., None]
        return memory * end.exp()[..., None] + keys.transpose(-1, -2) @ self.values[:, :rows]


def one_chunk(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, memory: Tensor
) -> tuple[Tensor, Writes]:
    """Outputs as `chunked` gives them for rows that all fit one chunk; the memory is read, and the rows' writes to it
    come back instead of the memory after the last."""
    query, key, value = (x.transpose(0, 1) for x in (query, key, value))  # [heads, rows, dim]
    total, beta = decay.T.cumsum(-1), beta.T[..., None]
    between = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
    scores = key @ key.transpose(-1, -2) * between * beta
    right = beta * (value - total.exp()[..., None] * (key @ memory))
    written = torch.linalg.solve_triangular(scores, right, upper=False, unitriangular=True)
    inside = query @ key.transpose(-1, -2) * between
    outputs = total.exp()[..., None] * (query @ memory) + inside @ written
    return outputs.transpose(0, 1), Writes(key, written, total)
