"""One training run: timed, logged, exported while it runs, resumable."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from engine.config import CloverConfig
from engine.model.clover import Clover
from engine.training.evaluate import DecodeSettings, evaluate
from engine.training.feed import Feed
from engine.training.objective import DeviceBatch, Loss, Recipe, step_loss
from engine.training.optimizer import Optimizer, rate_at
from engine.training.packing import Example, Shape


@dataclass(frozen=True)
class Plan:
    """How long and how hard to train.

    seconds: wall time of the whole run, the last evaluation and export left out; the learning rate follows it.
    steps: an upper limit on steps; 0 for none (the rate then follows the time only).
    """

    seconds: float
    steps: int = 0
    rate: float = 3e-3
    seed: int = 1
    log_every: int = 20
    evaluate_every: float = 180.0
    export_every: float = 240.0


@dataclass
class Progress:
    """Where a run stands; kept in its resumable checkpoint."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    examples: int = 0


class Trainer:
    """Steps over a feed. `export(folder name)` writes an engine checkpoint, `decode`/`score` judge held-out text."""

    def __init__(
        self, model: Clover, feed: Feed, plan: Plan, recipe: Recipe, folder: Path, *,
        device: torch.device, compute: torch.dtype, compiled: bool, stop_id: int, pad_id: int,
        heldout: list[Example], decode: Callable[[list[int]], str],
        score: Callable[[str, str], dict[str, bool]], export: Callable[[Clover, Path], None],
    ) -> None:  # fmt: skip
        self.model, self.feed, self.plan, self.recipe, self.folder = model, feed, plan, recipe, folder
        self.device, self.compute, self.compiled = device, compute, compiled
        self.stop_id, self.pad_id, self.heldout = stop_id, pad_id, heldout
        self._decode, self._score, self._export = decode, score, export
        self.parameters = dict(model.named_parameters())
        self.optimizer = Optimizer(self.parameters)
        self.progress = Progress()
        self._generator = torch.Generator(device=device).manual_seed(plan.seed)
        self._sums = torch.zeros(4, device=device)
        self._counted = 0

    @property
    def config(self) -> CloverConfig:
        """The model's."""
        return self.model.config

    def run(self) -> Progress:
        """Train to the plan's end, evaluate and export."""
        plan = self.plan
        began = time.monotonic() - self.progress.seconds
        marks = {"evaluate": began + plan.evaluate_every, "export": began + plan.export_every}
        logged = (time.monotonic(), self.progress.tokens)
        while True:
            now = time.monotonic()
            self.progress.seconds = now - began
            done = self.progress.seconds / plan.seconds
            if plan.steps:
                done = max(done, self.progress.step / plan.steps)
            if done >= 1:
                break
            try:
                shape, batch = self.feed.next(patience=0.05)
            except EOFError:
                break
            rate = rate_at(done, plan.rate)
            self.step(shape, batch, rate)
            if self.progress.step % plan.log_every == 0 or self.progress.step == 1:
                now = time.monotonic()
                speed = (self.progress.tokens - logged[1]) / max(now - logged[0], 1e-9)
                self._log_step(rate, speed)
                logged = (time.monotonic(), self.progress.tokens)
            if now >= marks["evaluate"] and self.heldout:
                self.evaluate(self.heldout[: max(len(self.heldout) // 2, 1)])
                marks["evaluate"] = time.monotonic() + plan.evaluate_every
                logged = (time.monotonic(), self.progress.tokens)
            if now >= marks["export"]:
                self.save()
                marks["export"] = time.monotonic() + plan.export_every
                logged = (time.monotonic(), self.progress.tokens)
        self.save()
        if self.heldout:
            self.evaluate(self.heldout, keep_texts=True)
        self.log({"event": "end", **asdict(self.progress)})
        return self.progress

    def warm_up(self, shape: Shape) -> None:
        """Compile by one pass over random tokens, while the data workers start. Changes no weights."""
        size = (shape.examples, shape.length)
        tokens = torch.randint(0, self.config.vocab_size, size, device=self.device)
        starts = torch.zeros(shape.examples, 32, dtype=torch.int64, device=self.device)
        wanted = torch.rand(size, device=self.device)
        batch = DeviceBatch(tokens, wanted, wanted > 0.9, starts, starts + 32, starts + 1.0)
        loss = step_loss(
            self.parameters, self.config, batch, shape, self.recipe, pad_id=self.pad_id,
            generator=torch.Generator(device=self.device), compute=self.compute, compiled=self.compiled,
        )  # fmt: skip
        loss.total.backward()
        for parameter in self.parameters.values():
            parameter.grad = None

    def step(self, shape: Shape, batch: DeviceBatch, rate: float) -> Loss:
        """One update on one batch."""
        loss = step_loss(
            self.parameters, self.config, batch, shape, self.recipe, pad_id=self.pad_id,
            generator=self._generator, compute=self.compute, compiled=self.compiled,
        )  # fmt: skip
        loss.total.backward()
        norm = self.optimizer.step(rate)
        self._sums += torch.stack((loss.masked, loss.next, loss.balance, norm))
        self._counted += 1
        self.progress.step += 1
        self.progress.tokens += shape.length * shape.examples
        self.progress.examples += shape.examples
        return loss

    def _log_step(self, rate: float, speed: float) -> None:
        means = (self._sums / max(self._counted, 1)).tolist()
        self._sums.zero_()
        self._counted = 0
        names = ("masked_loss", "next_loss", "balance", "gradient_norm")
        self.log(
            {"event": "step", **asdict(self.progress), "rate": rate, "tokens_per_second": speed,
             **dict(zip(names, means, strict=True)), "fresh": self.feed.fresh, "repeated": self.feed.repeated}
        )  # fmt: skip

    def evaluate(self, examples: list[Example], *, keep_texts: bool = False) -> Mapping[str, float]:
        """Decode held-out spans and log their scores."""
        began = time.monotonic()
        figures, texts = evaluate(
            self.parameters, self.config, examples, self.stop_id, DecodeSettings(), self._decode, self._score,
            device=self.device, compute=self.compute,
        )  # fmt: skip
        self.log(
            {"event": "evaluation", "step": self.progress.step, "seconds": self.progress.seconds,
             "heldout": len(examples), **figures, "took": time.monotonic() - began}
        )  # fmt: skip
        if keep_texts:
            lines = [json.dumps({"expected": expected, "actual": actual}) for expected, actual in texts]
            (self.folder / "heldout.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return figures

    def save(self) -> None:
        """Export an engine checkpoint to `folder`/checkpoint, and everything a resumed run needs to resume.pt."""
        self._export(self.model, self.folder / "checkpoint")
        state: dict[str, Any] = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "progress": asdict(self.progress),
        }
        partial = self.folder / "resume.pt.part"
        torch.save(state, partial)
        partial.replace(self.folder / "resume.pt")
        self.log({"event": "saved", "step": self.progress.step, "seconds": self.progress.seconds})

    def resume(self) -> None:
        """Take up `folder`/resume.pt; its time counts as spent."""
        state = torch.load(self.folder / "resume.pt", map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.progress = Progress(**state["progress"])

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one JSON line to `folder`/log.jsonl and print it."""
        rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in record.items()}
        line = json.dumps(rounded)
        print(line, flush=True)
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
