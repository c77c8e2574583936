"""Where examples come from: a module named on the command line."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from engine.errors import EngineError
from engine.training.packing import Example


class Source(Protocol):
    """What a training run asks of its data: a module (or object) with these three functions."""

    def stream(self, path: str, seed: int, worker: int, workers: int) -> Iterator[Example]:
        """Endless examples for worker `worker` of `workers`, from the corpus at `path`."""
        ...

    def heldout(self, path: str, count: int) -> Sequence[Example]:
        """The same `count` examples every time, each with one scored span, from data that `stream` never draws."""
        ...

    def score(self, expected: str, actual: str) -> dict[str, bool]:
        """What is right about the decoded text of a scored span; "exact" is the one that matters."""
        ...


def find_source(name: str) -> Source:
    """Import the module `name`. Raises EngineError."""
    try:
        source = importlib.import_module(name)
    except ImportError as fault:
        raise EngineError(f"the data source {name} can't be imported: {fault}") from None
    missing = [part for part in ("stream", "heldout", "score") if not hasattr(source, part)]
    if missing:
        raise EngineError(f"the data source {name} lacks {', '.join(missing)} (see engine.training.source.Source)")
    return cast(Source, source)
