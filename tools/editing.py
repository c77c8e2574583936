"""Replacing and inserting text in a file, without touching anything else of it."""

from __future__ import annotations

import difflib

from tools.protocol import ToolError
from tools.textfile import TextFile, visible


def replace(path: str, file: TextFile, old: str, new: str, line: int | None = None) -> bytes:
    """The file's bytes with the one occurrence of `old` replaced by `new`.

    line: where `old` starts (1-based), to tell repeated occurrences apart; it need not fit where there is only one.
    Raises ToolError that names the occurrences, or what comes nearest.
    """
    old, new = _plain(old), _plain(new)
    if not old:
        raise ToolError("old_str is empty: give the text to replace, or use insert")
    if old == new:
        raise ToolError("old_str and new_str are the same: nothing would change")
    starts = _occurrences(file.text, old)
    if not starts:
        raise ToolError(f"old_str does not occur in {path}{_nearest(file, old)}")
    start = starts[0]
    if len(starts) > 1:
        numbers = [file.text.count("\n", 0, at) + 1 for at in starts]
        fitting = [at for at, number in zip(starts, numbers, strict=True) if number == line]
        if len(fitting) != 1:
            where = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
            hint = "give more of the lines around it" if fitting else "say which with `line`"
            raise ToolError(f"old_str occurs {len(starts)} times in {path}, at lines {where}: {hint}")
        start = fitting[0]
    return file.splice(start, start + len(old), new)


def insert(path: str, file: TextFile, line: int, text: str) -> bytes:
    """The file's bytes with `text` as lines of its own after line `line` (0: at the top)."""
    text, count = _plain(text), len(file.lines)
    if not text:
        raise ToolError("text is empty: nothing would change")
    if line > count:
        raise ToolError(f"{path} has {count} lines: line {line} is beyond its end")
    if line < count or not file.text or file.text.endswith("\n"):
        at = sum(len(row) + 1 for row in file.lines[:line])
        return file.splice(at, at, text if text.endswith("\n") else text + "\n")
    return file.splice(len(file.text), len(file.text), "\n" + text.removesuffix("\n"))  # still no line end at the end


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _occurrences(text: str, part: str) -> list[int]:
    starts, at = [], text.find(part)
    while at >= 0:
        starts.append(at)
        at = text.find(part, at + 1)
    return starts


def _nearest(file: TextFile, old: str) -> str:
    """A hint at the lines most like the first line of `old`."""
    first = next((row for row in old.split("\n") if row.strip()), "")
    same = [number for number, row in enumerate(file.lines, 1) if first.strip() and row.strip() == first.strip()]
    if same and first not in file.lines:
        return f": line {same[0]} differs from it in indentation only: {visible(file.lines[same[0] - 1])[:160]!r}"
    if spaced := _but_for_whitespace(file.lines, old):
        where = f"line {spaced[0]} differs" if len(spaced) == 1 else f"lines {spaced[0]} to {spaced[-1]} differ"
        shown = "".join(f"\n{number}\t{visible(file.lines[number - 1])[:160]!r}" for number in spaced[:20])
        return f": {where} from it in whitespace only:{shown}"
    if same:
        return f": line {same[0]} is its first line, but the lines below differ"
    near = difflib.get_close_matches(first, file.lines[:20_000], 1, 0.6)
    return f": the nearest line is {file.lines.index(near[0]) + 1}: {visible(near[0])[:160]!r}" if near else ""


def _but_for_whitespace(lines: list[str], old: str) -> range | None:
    """Numbers of the first lines that equal those of `old` when all whitespace is left out; None without any."""
    wanted = ["".join(row.split()) for row in old.removesuffix("\n").split("\n")]
    squeezed = ["".join(row.split()) for row in lines]
    if not any(wanted):
        return None
    for at in range(len(lines) - len(wanted) + 1):
        if squeezed[at] == wanted[0] and squeezed[at : at + len(wanted)] == wanted:
            return range(at + 1, at + 1 + len(wanted))
    return None
