"""Batches from worker processes to the training device, with old batches again where the workers fall behind."""

from __future__ import annotations

import multiprocessing
import queue
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from engine.errors import EngineError
from engine.training.objective import DeviceBatch
from engine.training.packing import Batch, Shape, batches
from engine.training.source import find_source


@dataclass(frozen=True)
class FeedSettings:
    """source: dotted name; path: its corpus; prompt_weight: of the prompt's rows among next-token rows."""

    source: str
    path: str
    seed: int
    workers: int
    block: int
    pad_id: int
    prompt_weight: float = 0.25


def _work(settings: FeedSettings, shapes: Sequence[Shape], worker: int, out: Any) -> None:
    torch.set_num_threads(1)
    examples = find_source(settings.source).stream(settings.path, settings.seed, worker, max(settings.workers, 1))
    try:
        for shape, batch in batches(examples, shapes, settings.block, settings.pad_id, settings.prompt_weight):
            out.put((shape, batch))
    except (KeyboardInterrupt, BrokenPipeError):
        pass


class Feed:
    """Call `next()` for a batch. With no workers, batches are made in this process, so a seed fixes the run.

    fresh, repeated: batches handed out so far, new and again (they get new noise either way).
    """

    def __init__(self, settings: FeedSettings, shapes: Sequence[Shape], device: torch.device, keep: int = 256) -> None:
        self._device, self._keep = device, keep
        self._kept: list[tuple[Shape, DeviceBatch]] = []
        self._random = random.Random(settings.seed)
        self._workers: list[BaseProcess] = []
        self.fresh = self.repeated = 0
        if not settings.workers:
            examples = find_source(settings.source).stream(settings.path, settings.seed, 0, 1)
            self._own = batches(examples, shapes, settings.block, settings.pad_id, settings.prompt_weight)
            return
        context = multiprocessing.get_context("spawn")
        self._queue = context.Queue(maxsize=24)
        for worker in range(settings.workers):
            process = context.Process(target=_work, args=(settings, shapes, worker, self._queue), daemon=True)
            process.start()
            self._workers.append(process)

    def next(self, patience: float = 0.0) -> tuple[Shape, DeviceBatch]:
        """A fresh batch if one comes within `patience` seconds, else one of the kept ones.

        Raises EngineError when the workers have died and EOFError when an in-process source has ended.
        """
        fresh = self._fresh(patience)
        while fresh is None and not self._kept:
            if not any(process.is_alive() for process in self._workers):
                raise EngineError("every data worker has stopped: run with --workers 0 to see why")
            fresh = self._fresh(1.0)
        if fresh is None:
            self.repeated += 1
            return self._random.choice(self._kept)
        self.fresh += 1
        shape, batch = fresh
        ready = (shape, self._to_device(batch))
        if self._workers:
            if len(self._kept) >= self._keep:
                self._kept.pop(0)
            self._kept.append(ready)
        return ready

    def _fresh(self, patience: float) -> tuple[Shape, Batch] | None:
        if not self._workers:
            try:
                return next(self._own)
            except StopIteration:
                raise EOFError("the data source has ended") from None
        try:
            return self._queue.get(timeout=patience) if patience > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None

    def _to_device(self, batch: Batch) -> DeviceBatch:
        def move(array: Any, dtype: torch.dtype) -> torch.Tensor:
            return torch.from_numpy(array).to(self._device, non_blocking=True).to(dtype)

        return DeviceBatch(
            move(batch.tokens, torch.int64),
            move(batch.wanted, torch.float32),
            move(batch.keys, torch.bool),
            move(batch.starts, torch.int64),
            move(batch.ends, torch.int64),
            move(batch.weights, torch.float32),
        )

    def close(self) -> None:
        """Stop the workers."""
        for process in self._workers:
            process.terminate()
        deadline = time.monotonic() + 5
        for process in self._workers:
            process.join(max(deadline - time.monotonic(), 0.1))
