"""A run's log as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.errors import EngineError


def read_log(path: Path) -> list[dict[str, Any]]:
    """Records of a log.jsonl. Raises EngineError."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, json.JSONDecodeError) as fault:
        raise EngineError(f"{path} can't be read as a training log: {fault}") from None


def plot(log: Path, picture: Path) -> None:
    """Draw losses and held-out scores over time into a PNG (or whatever suffix `picture` has). Raises EngineError."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise EngineError("plotting needs matplotlib: pip install matplotlib") from None
    records = read_log(log)
    steps = [r for r in records if r["event"] == "step"]
    scores = [r for r in records if r["event"] == "evaluation"]
    figure, left = pyplot.subplots(figsize=(8, 4.5))
    seconds = [r["seconds"] for r in steps]
    left.plot(seconds, [r["masked_loss"] for r in steps], label="masked rows")
    left.plot(seconds, [r["next_loss"] for r in steps], label="next token")
    left.set(xlabel="seconds", ylabel="loss (nats)", yscale="log")
    right = left.twinx()
    for name in ("located", "exact"):
        found = [(r["seconds"], 100 * r[name]) for r in scores if name in r]
        if found:
            right.plot(*zip(*found, strict=True), marker="o", linestyle="--", label=f"held out: {name}")
    right.set(ylabel="% of held-out edits", ylim=(0, 100))
    handles = [(*left.get_legend_handles_labels(), *right.get_legend_handles_labels())][0]
    left.legend(handles[0] + handles[2], handles[1] + handles[3], loc="upper center")
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
