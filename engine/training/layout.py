"""Where the rows of a training batch lie: clean rows first, then the noisy blocks, and the indices between them.

Flat clean rows are example-major for attention; Gated DeltaNet wants chunks of 32 in time order ("chunk-major":
chunk c of every example, then chunk c + 1 of every example), so that one step of its scan is one slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.training.scan import CHUNK


@dataclass(frozen=True, slots=True)
class Layout:
    """Index tensors of E examples of L rows with N noisy blocks of B rows each; M = E * L / 32 chunks, K = E * N.

    positions [E L + K B]: token positions, clean rows first. noisy_start [E, N]: positions p of the noisy blocks.
    order, order_inverse [M]: chunk-major chunk -> example-major chunk, and back.
    before, after [M]: chunk-major index of the same example's previous and next chunk, -1 where there is none.
    ring [K, taps]: chunk-major flat row of the rows p - taps .. p - 1, -1 before the start.
    chunk [K], inside [K]: the chunk (chunk-major) that holds p, and p's row in it.
    mask [E, 1, N B, L + N B] bool: what a noisy row attends to.
    """

    examples: int
    length: int
    blocks: int
    block: int
    positions: Tensor
    order: Tensor
    order_inverse: Tensor
    before: Tensor
    after: Tensor
    ring: Tensor
    chunk: Tensor
    inside: Tensor
    mask: Tensor

    @property
    def clean(self) -> int:
        """Number of clean rows."""
        return self.examples * self.length

    @property
    def noisy(self) -> int:
        """Number of noisy rows."""
        return self.examples * self.blocks * self.block


def lay_out(noisy_start: Tensor, length: int, block: int, taps: int) -> Layout:
    """The layout of noisy blocks that start at noisy_start [E, N], each in 0 .. length - 1.

    length: clean rows an example, a multiple of 32. taps: rows that the convolution looks back.
    """
    examples, blocks = noisy_start.shape
    device = noisy_start.device
    chunks = length // CHUNK
    clean_positions = torch.arange(length, device=device)
    within = torch.arange(block, device=device)
    noisy_positions = noisy_start[..., None] + within
    positions = torch.cat((clean_positions.expand(examples, -1).flatten(), noisy_positions.flatten()))

    index = torch.arange(chunks * examples, device=device)
    time, example = index // examples, index % examples
    order = example * chunks + time
    order_inverse = (index % chunks) * examples + index // chunks
    before = torch.where(time > 0, index - examples, -1)
    after = torch.where(time < chunks - 1, index + examples, -1)

    owner = torch.arange(examples, device=device)[:, None].expand(-1, blocks)
    ring_at = noisy_start[..., None] + torch.arange(-taps, 0, device=device)
    ring = (ring_at // CHUNK * examples + owner[..., None]) * CHUNK + ring_at % CHUNK
    ring = torch.where(ring_at >= 0, ring, -1)
    chunk = noisy_start // CHUNK * examples + owner

    group = torch.arange(blocks, device=device).repeat_interleave(block)
    sees_clean = clean_positions < noisy_start[:, group][..., None]
    sees_noisy = (group[:, None] == group[None, :]).expand(examples, -1, -1)
    mask = torch.cat((sees_clean, sees_noisy), dim=-1)[:, None]
    return Layout(
        examples, length, blocks, block, positions, order, order_inverse, before, after,
        ring.flatten(0, 1), chunk.flatten(), (noisy_start % CHUNK).flatten(), mask,
    )  # fmt: skip
