"""The edit that undoes a bug, and edits that a hasty programmer would have tried first."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clover_agent.nano.functions import Function
from engine.training.bugs import Mutation, mutate

MAX_LINE = 300  # longer lines would be cut in the view, so that they could not be copied


@dataclass(frozen=True)
class Edit:
    """Replace the lines `old`, the first of them line `line` (1-based), by `new`. Both hold at least one line."""

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def last(self) -> int:
        """The last replaced line."""
        return self.line + len(self.old) - 1

    def arguments(self, path: str) -> dict[str, Any]:
        """Arguments of the str_replace call."""
        return {"path": path, "line": self.line, "old_str": "\n".join(self.old), "new_str": "\n".join(self.new)}

    def apply(self, lines: Sequence[str]) -> list[str]:
        """The lines after the edit. Raises ValueError where `old` does not stand there."""
        start = self.line - 1
        if tuple(lines[start : start + len(self.old)]) != self.old:
            raise ValueError(f"line {self.line} does not hold the text to be replaced")
        return [*lines[:start], *self.new, *lines[start + len(self.old) :]]

    def undone(self) -> Edit:
        """The edit that takes this one back."""
        return Edit(self.line, self.new, self.old)


def repairing_edit(buggy: Sequence[str], mutation: Mutation, function: Function) -> Edit | None:
    """The edit that undoes a mutation; None where it can't be told to the str_replace tool.

    Where lines only come or go, the lines above them, up to one that is not blank, serve as anchor.
    """
    line, old, new = mutation.line, mutation.after, mutation.before
    while not (new and "".join(old).strip()):
        line -= 1
        if line < function.start:
            return None
        anchor = buggy[line - 1]
        old, new = (anchor, *old), (anchor, *new)
    if any(len(text) > MAX_LINE for text in (*old, *new)):
        return None
    return Edit(line, tuple(old), tuple(new))


def wrong_change(source: str, edit: Edit, rng: random.Random) -> Edit | None:
    """Another change of the lines that `edit` repairs: the right place, but still wrong. source: the sound text."""
    slip = mutate(source, rng, edit.line, edit.line + len(edit.new) - 1)
    if slip is None or not edit.line <= slip.line:
        return None
    at = slip.line - edit.line
    new = (*edit.new[:at], *slip.after, *edit.new[at + len(slip.before) :])
    if not "".join(new).strip() or new in (edit.old, edit.new) or any(len(text) > MAX_LINE for text in new):
        return None
    return Edit(edit.line, edit.old, new)


def needless_change(source: str, edit: Edit, function: Function, rng: random.Random) -> Edit | None:
    """A change of lines of the buggy function that were right all along. source: the sound text."""
    slip = mutate(source, rng, function.start, function.end)
    if slip is None or len(slip.before) != len(slip.after) or not "".join(slip.after).strip():
        return None
    repaired = range(edit.line, edit.line + len(edit.new))
    if slip.line + len(slip.before) > repaired.start and slip.line < repaired.stop:
        return None
    if any(len(text) > MAX_LINE for text in (*slip.before, *slip.after)):
        return None
    shift = len(edit.old) - len(edit.new) if slip.line >= repaired.stop else 0
    return Edit(slip.line + shift, slip.before, slip.after)
