"""Plain statistics of non-empty sequences of numbers."""


def mean(values):
    """Arithmetic mean; ValueError without values."""
    if not values:
        raise ValueError("mean of nothing")
    return sum(values) / len(values)


def median(values):
    """The middle value, or the mean of the two in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def variance(values):
    """Mean squared distance from the mean."""
    center = mean(values)
    return sum((value - center) ** 2 for value in values) / len(values)


def mode(values):
    """The most frequent value; the one seen first on ties."""
    counts = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    best = None
    for value, count in counts.items():
        if best is None or count > counts[best]:
            best = value
    return best


def moving_average(values, window):
    """Means of every run of `window` neighbours."""
    if window < 1:
        raise ValueError("window must be positive")
    averages = []
    for start in range(len(values) - window + 1):
        averages.append(mean(values[start:start + window]))
    return averages


def histogram(values, low, high, bins):
    """Counts in equal bins over `low`..`high`; the upper edge belongs to the last bin."""
    counts = [0] * bins
    width = (high - low) / bins
    for value in values:
        if value < low or value > high:
            continue
        index = min(int((value - low) / width), bins - 1)
        counts[index] += 1
    return counts
