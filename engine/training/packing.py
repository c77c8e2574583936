"""What a training example is, and how examples become batches of few, fixed shapes.

A batch holds a constant number of clean rows whatever the length of its examples: `rows // length` examples,
padded to `length`. So everything that works on flat rows is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

KEY_BLOCKS = 2.0  # how much more often a block that holds key tokens is drawn than another of its span
KEY_ROWS = 4.0  # how much more a key token counts in the next-token loss


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens the model writes: `tokens[start:end]`, the closing stop token included.

    start: the first token after the generation prompt, so the first block of 32 begins there, as in decoding.
    weight: how much the span's blocks count in the loss; 0 keeps it out of the loss (a deliberately wrong edit, say).
    scored: in evaluation, this span is decoded from its clean prefix and compared.
    keys: positions of the tokens that decide what the span does; the rest follows from them or is copied.
    """

    start: int
    end: int
    weight: float = 1.0
    scored: bool = False
    keys: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation: all its token ids, and the spans of it that the model wrote."""

    tokens: Sequence[int]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A bucket: `examples` rows of `length` tokens with `blocks` noisy blocks each."""

    length: int
    examples: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Numpy arrays of one batch; E examples, L tokens, K candidate blocks.

    tokens: int32 [E, L], padded with pad_id. lengths: int32 [E], 0 for an empty row.
    wanted: float16 [E, L], weight of predicting this token from the row before it (next-token loss).
    keys: bool [E, L], the spans' key tokens.
    starts: int32 [E, K], candidate block positions, -1 for none. ends: int32 [E, K], end of the block's span.
    weights: float32 [E, K], the spans' weights.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    wanted: np.ndarray
    keys: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    weights: np.ndarray


def shapes(rows: int, lengths: Sequence[int], noise: int, block: int) -> tuple[Shape, ...]:
    """The buckets of a run. rows: clean rows a batch; noise: one noisy block per `noise` clean rows.

    Raises ValueError unless every length is a multiple of `noise` and `block` and divides `rows`.
    """
    found: list[Shape] = []
    for length in sorted(lengths):
        if length % noise or length % block or rows % length:
            raise ValueError(f"bucket {length} must be a multiple of {noise} and {block} and divide {rows} rows")
        found.append(Shape(length, rows // length, length // noise))
    return tuple(found)


def candidate_blocks(example: Example, block: int) -> list[tuple[int, int, float]]:
    """(start, span end, weight) of every block of the example's spans: cut from each span's start."""
    return [
        (start, span.end, span.weight * (1.0 if span.keys.isdisjoint(range(start, start + block)) else KEY_BLOCKS))
        for span in example.spans
        if span.weight > 0
        for start in range(span.start, span.end, block)
    ]


def pack(
    examples: Sequence[Example], shape: Shape, block: int, pad_id: int, candidates: int = 32, prompt_weight: float = 1.0
) -> Batch:
    """Arrays of one bucket's examples (at most shape.examples; the other rows stay empty)."""
    count, length = shape.examples, shape.length
    tokens = np.full((count, length), pad_id, np.int32)
    lengths = np.zeros(count, np.int32)
    wanted = np.zeros((count, length), np.float16)
    keys = np.zeros((count, length), np.bool_)
    starts = np.full((count, candidates), -1, np.int32)
    ends = np.zeros((count, candidates), np.int32)
    weights = np.zeros((count, candidates), np.float32)
    for row, example in enumerate(examples):
        size = len(example.tokens)
        if size > length:
            raise ValueError(f"an example of {size} tokens in a bucket of {length}")
        tokens[row, :size] = example.tokens
        lengths[row] = size
        wanted[row, 1:size] = prompt_weight
        for span in example.spans:
            wanted[row, max(span.start, 1) : span.end] = span.weight
            positions = sorted(span.keys)
            keys[row, positions] = True
            wanted[row, positions] = span.weight * KEY_ROWS
        for column, (start, end, weight) in enumerate(candidate_blocks(example, block)[:candidates]):
            starts[row, column], ends[row, column], weights[row, column] = start, end, weight
    return Batch(tokens, lengths, wanted, keys, starts, ends, weights)


def batches(
    examples: Iterable[Example], buckets: Sequence[Shape], block: int, pad_id: int, prompt_weight: float = 1.0
) -> Iterator[tuple[Shape, Batch]]:
    """Full batches in the order in which buckets fill. Examples longer than the last bucket are left out."""
    waiting: dict[int, list[Example]] = {shape.length: [] for shape in buckets}
    for example in examples:
        size = len(example.tokens)
        shape = next((s for s in buckets if s.length >= size), None)
        if shape is None or not example.spans:
            continue
        group = waiting[shape.length]
        group.append(example)
        if len(group) == shape.examples:
            yield shape, pack(group, shape, block, pad_id, prompt_weight=prompt_weight)
            group.clear()
