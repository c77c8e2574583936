"""A bug with a check that really noticed it, and the file that keeps many of them."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from pathlib import Path

FILE = "failures.jsonl.xz"


@dataclass(frozen=True)
class Check:
    """A test's statement that may fail, and what runs before it. expected: name of an exception, for raising calls."""

    statement: str
    setup: str = ""
    expected: str = ""


@dataclass(frozen=True)
class Fault:
    """How a check failed. frames: (line, function) in the module, outermost first; errors: pytest's E lines."""

    frames: tuple[tuple[int, str], ...]
    errors: tuple[str, ...]


@dataclass(frozen=True)
class Executed:
    """A bug, and a check that notices it. Lines count in the module as it stands in the corpus.

    start, end: the mutated function's, in the sound module. line, before, after: the mutation. The fault's lines count
    in the mutant.
    """

    package: str
    path: str
    function: str
    start: int
    end: int
    operator: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    check: Check
    fault: Fault

    @property
    def growth(self) -> int:
        """Lines that the mutation adds."""
        return len(self.after) - len(self.before)


def read_executed(path: Path) -> dict[tuple[str, str], list[Executed]]:
    """The records of a file by package and path of their module; nothing where there is no such file."""
    found: dict[tuple[str, str], list[Executed]] = {}
    if not path.is_file():
        return found
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = _record(json.loads(line))
            found.setdefault((record.package, record.path), []).append(record)
    return found


def _record(raw: dict[str, object]) -> Executed:
    fields: dict[str, object] = dict(raw)
    fault: dict[str, list[object]] = raw["fault"]  # type: ignore[assignment]
    frames = tuple((line, name) for line, name in fault["frames"])  # type: ignore[misc]
    fields["fault"] = Fault(frames, tuple(fault["errors"]))  # type: ignore[arg-type]
    fields["check"] = Check(**raw["check"])  # type: ignore[arg-type]
    fields["before"], fields["after"] = tuple(raw["before"]), tuple(raw["after"])  # type: ignore[arg-type]
    return Executed(**fields)  # type: ignore[arg-type]
