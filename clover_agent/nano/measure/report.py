"""The measure's results as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from clover_agent.nano.measure.running import Row

NOTE = (
    "Bugs: one mutation of one line each, by the operators that clover-nano was trained on, in packages absent from "
    "its training data, kept where at least one of the package's own tests fails."
)


def summary(rows: Sequence[Row]) -> str:
    """Counts, rates with their 95% interval (Wilson 1927), times and memory, then by package and by operator."""
    if not rows:
        return "no results yet"
    fixed = sum(row.verdict == "fixed" for row in rows)
    low, high = wilson(fixed, len(rows))
    calls, valid = sum(row.calls for row in rows), sum(row.valid_calls for row in rows)
    seconds = sorted(row.seconds for row in rows)
    verdicts = ", ".join(f"{name} {count}" for name, count in Counter(row.verdict for row in rows).most_common())
    lines = [
        f"fixed               {fixed} of {len(rows)} = {fixed / len(rows):.1%} (95% interval {low:.1%} to {high:.1%})",
        f"false fixed         {sum(row.false_fixed for row in rows)}",
        f"original restored   {sum(row.exact for row in rows)}",
        f"verdicts            {verdicts}",
        f"valid tool calls    {valid} of {calls}" + (f" = {valid / calls:.2%}" if calls else ""),
        f"seconds a task      median {_quantile(seconds, 0.5):.1f}, 90% below {_quantile(seconds, 0.9):.1f}",
        f"peak memory         {max(row.peak_mb for row in rows):.0f} MB",
        "",
        NOTE,
        "",
        _table("package", rows, lambda row: row.package),
        "",
        _table("operator", rows, lambda row: row.operator),
    ]
    return "\n".join(lines)


def wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Interval of a proportion that holds for small counts too."""
    share, factor = hits / total, 1 + z * z / total
    middle = (share + z * z / (2 * total)) / factor
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / factor
    return max(0.0, middle - half), min(1.0, middle + half)


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _table(title: str, rows: Sequence[Row], key: Callable[[Row], str]) -> str:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    lines = [f"{title:20} {'tasks':>5} {'fixed':>5} {'share':>6} {'seconds':>8}"]
    for name, group in sorted(groups.items()):
        fixed = sum(row.verdict == "fixed" for row in group)
        median = _quantile(sorted(row.seconds for row in group), 0.5)
        lines.append(f"{name:20} {len(group):5} {fixed:5} {fixed / len(group):6.0%} {median:8.1f}")
    return "\n".join(lines)
