"""Half-open integer intervals `(start, end)`: start included, end left out."""


def overlaps(a, b):
    """Whether two intervals share at least one integer."""
    return a[0] < b[1] and b[0] < a[1]


def merge(intervals):
    """Overlapping and touching intervals joined, in order."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            last_start, last_end = merged[-1]
            merged[-1] = (last_start, max(last_end, end))
        else:
            merged.append((start, end))
    return merged


def total_length(intervals):
    """How many integers at least one interval covers."""
    return sum(end - start for start, end in merge(intervals))


def gaps(intervals, start, end):
    """The parts of `start`..`end` that no interval covers."""
    found = []
    position = start
    for left, right in merge(intervals):
        if right <= start or left >= end:
            continue
        if left > position:
            found.append((position, left))
        position = max(position, right)
    if position < end:
        found.append((position, end))
    return found
