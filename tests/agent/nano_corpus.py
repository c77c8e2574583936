"""A small corpus from the standard library, for tests of the training data."""

from __future__ import annotations

import json
import lzma
import sysconfig
from dataclasses import asdict
from pathlib import Path

from clover_agent.nano.corpus import Module, held_out

NAMES = (
    "textwrap", "heapq", "bisect", "shlex", "colorsys", "fractions", "statistics", "calendar", "difflib", "string",
    "fnmatch", "posixpath", "ntpath", "quopri", "reprlib", "base64", "csv", "graphlib",
)  # fmt: skip


def modules() -> list[Module]:
    """Modules of the standard library, each as a package of its own; `heldout-...` packages are for evaluation."""
    folder = Path(sysconfig.get_path("stdlib"))
    found = []
    for name in NAMES:
        source = (folder / f"{name}.py").read_text(encoding="utf-8")
        package = name if name != "calendar" else next(n for n in map("heldout{}".format, range(999)) if held_out(n))
        found.append(Module(package, "3", "PSF-2.0", f"{name}.py", source))
    return found


def write(path: Path) -> Path:
    """Write the corpus to `path`."""
    with lzma.open(path, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(asdict(module)) + "\n" for module in modules())
    return path
