"""Files that decide how tests run: a patch is graded with the base's own."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from clover_agent.localize import is_test_file

_RUNNER_FILES = re.compile(
    r"(^|/)(conftest\.py|pytest\.ini|\.pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml|noxfile\.py|Makefile|\.coveragerc|"
    r"sitecustomize\.py|usercustomize\.py|[^/]+\.pth)$"
)
# Modules that a test run imports before any test: a new file of such a name would be imported in their place.
_RUNNER_MODULES = frozenset(
    {
        "_pytest",
        "attr",
        "colorama",
        "exceptiongroup",
        "iniconfig",
        "packaging",
        "pluggy",
        "py",
        "pygments",
        "pytest",
        "tomli",
    }
)


def protected_files(base: Path, names: Sequence[str]) -> list[str]:
    """Those of the changed files that decide how tests run; `base`: the repository without the changes."""
    return [name for name in names if is_protected(name) or _shadows(base, name)]


def is_protected(name: str) -> bool:
    """Whether a file is a test or configures the runner."""
    return is_test_file(name) or bool(_RUNNER_FILES.search(name)) or "tests" in PurePosixPath(name).parts[:-1]


def _shadows(base: Path, name: str) -> bool:
    """Whether a file is new and would be imported instead of a module of the test runner or the standard library.

    Inside of a package a name is free, and so is everything that the base holds already.
    """
    parts = PurePosixPath(name).parts
    for depth, part in enumerate(parts):
        folder = base.joinpath(*parts[:depth])
        if (folder / "__init__.py").exists():
            return False
        module = part.partition(".")[0]
        known = module in _RUNNER_MODULES or module in sys.stdlib_module_names
        if known and not (folder / part).exists() and (depth < len(parts) - 1 or "." in part):
            return True
    return False
