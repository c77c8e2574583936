"""A place that can be broken, and what breaking it yields."""

from __future__ import annotations

from dataclasses import dataclass

from engine.training.bugs.source import ParsedSource, Unit, split_lines


@dataclass(frozen=True)
class Site:
    """One edit of a source text.

    start, end: the replaced span, as offsets into the text's UTF-8 bytes. choices: what may stand there instead, one
    of which is drawn; a text that occurs twice is drawn twice as often.
    """

    operator: str
    start: int
    end: int
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Mutation:
    """A bug put into a source text.

    operator: the name of what was done. line: 1-based number of the first changed line. before: the original lines
    that changed, without line ends. after: what stands there now; empty where lines were removed.
    source: the whole mutated text, equal to the original outside those lines.
    """

    operator: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    source: str


def apply(parsed: ParsedSource, unit: Unit, site: Site, choice: str) -> Mutation | None:
    """The mutation that puts `choice` at `site`; None where nothing would change or the result does not compile."""
    data, replacement = parsed.data, choice.encode()
    if data[site.start : site.end] == replacement:
        return None
    mutant = data[unit.start : site.start] + replacement + data[site.end : unit.end]
    if not unit.compiles(mutant):
        return None
    first, last = parsed.line_at(site.start), parsed.line_at(site.end)
    region_start, region_end = parsed.line_starts[first - 1], parsed.end_of_line(last)
    before = split_lines(data[region_start:region_end].decode())
    after = split_lines((data[region_start : site.start] + replacement + data[site.end : region_end]).decode())
    skip = 0
    while skip < min(len(before), len(after)) and before[skip] == after[skip]:
        skip += 1
    kept = 0
    while kept < min(len(before), len(after)) - skip and before[-1 - kept] == after[-1 - kept]:
        kept += 1
    return Mutation(
        operator=site.operator,
        line=first + skip,
        before=tuple(before[skip : len(before) - kept]),
        after=tuple(after[skip : len(after) - kept]),
        source=(data[: site.start] + replacement + data[site.end :]).decode(),
    )
