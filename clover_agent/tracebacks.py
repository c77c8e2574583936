"""What a test command that is no pytest says of its failure: the last traceback it prints."""

from __future__ import annotations

import re

from tools.render import TestFailure

_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<name>.+)$')
_TEST = re.compile(r"^(?:FAIL|ERROR): (?P<name>\S+)(?: \((?P<place>[\w.]+)\))?")  # unittest's headings


def read_traceback(output: str, workspace: str, command: str) -> TestFailure | None:
    """The first failure in a command's output, in the form of pytest's short tracebacks; None where there is none.

    Paths inside of `workspace` become relative to it. The failure bears unittest's name of the test, else `command`.
    """
    lines = output.splitlines()
    if _HEAD not in (line.strip() for line in lines):
        return None
    start = next(number for number, line in enumerate(lines) if line.strip() == _HEAD)
    headings = [match for line in lines[:start] if (match := _TEST.match(line))]
    shown: list[str] = []
    errors: list[str] = []
    indent = len(lines[start]) - len(lines[start].lstrip())
    for line in lines[start + 1 :]:
        if match := _FRAME.match(line):
            path = match["path"].removeprefix(workspace.rstrip("/") + "/")
            shown.append(f"{path}:{match['line']}: in {match['name']}")
        elif line[indent : indent + 1] == " " and not errors:
            if line.strip(" ^~"):
                shown.append("    " + line.strip())
        elif line.strip() and not line.startswith(("---", "===")):
            errors.append("E   " + line.strip())
        else:
            break
    title = command
    if headings:
        name, place = headings[-1]["name"], headings[-1]["place"] or ""
        title = place if place.endswith(name) else f"{place}.{name}".strip(".")
    return TestFailure(title, "\n".join([*shown, *errors]))
