"""What a user can do where the sandbox, not the code, is in the way."""

from __future__ import annotations

import re
from pathlib import Path

from tools.render import TestReport

_MISSING = re.compile(r"ModuleNotFoundError: No module named ['\"]([\w.]+)['\"]")


def missing_modules(report: TestReport, folder: Path) -> str:
    """A line on modules that tests could not import, "" where there are none. folder: the copy of the repository."""
    texts = [failure.detail for failure in report.collection_errors]
    if not report.structured:
        texts.append(report.output)
    names = {name.partition(".")[0]: None for text in texts for name in _MISSING.findall(text)}
    lines = []
    for name in names:
        below = next((place for place in ("src", "lib") if _holds(folder / place, name)), "")
        help_ = f"put PYTHONPATH={below} before the test command" if below else "give an --image that has it"
        lines.append(f"the sandbox has no module {name}: {help_}")
    return lines[0] if lines else ""


def _holds(folder: Path, module: str) -> bool:
    return (folder / module).is_dir() or (folder / f"{module}.py").is_file()
