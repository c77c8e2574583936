"""Runs of equal neighbours, chunks and windows of sequences."""


def encode(sequence):
    """Run-length coding: pairs of an item and how often it repeats."""
    pairs = []
    for item in sequence:
        if pairs and pairs[-1][0] == item:
            pairs[-1] = (item, pairs[-1][1] + 1)
        else:
            pairs.append((item, 1))
    return pairs


def decode(pairs):
    """The list that `encode` was given."""
    items = []
    for item, count in pairs:
        items.extend([item] * count)
    return items


def longest_run(sequence):
    """Length of the longest run, 0 for an empty sequence."""
    return max((count for _, count in encode(sequence)), default=0)


def chunks(sequence, size):
    """Consecutive pieces of `size` items; the last one may be shorter."""
    if size < 1:
        raise ValueError("size must be positive")
    return [sequence[start:start + size] for start in range(0, len(sequence), size)]


def rotate(sequence, steps):
    """The items moved `steps` places to the left, around the end."""
    if not sequence:
        return []
    shift = steps % len(sequence)
    return list(sequence[shift:]) + list(sequence[:shift])
