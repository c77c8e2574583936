"""Kinds of values on the command line. Each function is a `type` of argparse: one line says what is wrong."""

from __future__ import annotations

import argparse
import math

MAX_COUNT = 1_000_000
MAX_SEED = 2**63 - 1


def positive(text: str) -> int:
    """A whole number from 1 to a million."""
    return _whole(text, 1, MAX_COUNT)


def seed(text: str) -> int:
    """What random generators start from."""
    return _whole(text, 0, MAX_SEED)


def seconds(text: str) -> float:
    """A time in seconds above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds above 0")
    return value


def _whole(text: str, low: int, high: int) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 40 else -1
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
    return value
