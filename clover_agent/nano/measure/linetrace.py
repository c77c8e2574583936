"""A pytest plugin that notes which lines run below the folders in `CLOVER_TRACE_ROOTS` (joined by `:`).

The result goes to the file `CLOVER_TRACE_OUT` as JSON: by file name, the sorted line numbers.

It stands alone, because it is loaded by the interpreter that runs the tests, which need not have this project.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

_lines: dict[str, set[int]] = {}


def _tracer(roots: tuple[str, ...]) -> Callable[[FrameType, str, Any], Any]:
    def local(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            _lines[frame.f_code.co_filename].add(frame.f_lineno)
        return local

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        if frame.f_code.co_name == "<module>" or not name.startswith(roots):
            return None
        _lines.setdefault(name, set())
        return local

    return enter


def pytest_sessionstart() -> None:
    tracer = _tracer(tuple(os.environ["CLOVER_TRACE_ROOTS"].split(":")))
    threading.settrace(tracer)
    sys.settrace(tracer)


def pytest_unconfigure() -> None:
    sys.settrace(None)
    Path(os.environ["CLOVER_TRACE_OUT"]).write_text(json.dumps({name: sorted(lines) for name, lines in _lines.items()}))
