"""A whole run on a CPU: a tiny model learns to answer, by its own block diffusion, what a tiny data set asks."""

from __future__ import annotations

import json
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.config import CloverConfig
from engine.model.clover import Clover
from engine.training.feed import Feed, FeedSettings
from engine.training.initial import initialise
from engine.training.objective import Recipe
from engine.training.packing import Example, Span, candidate_blocks, shapes
from engine.training.trainer import Plan, Trainer

STOP, PAD, MASK, ASK = 61, 62, 63, 60
CONFIG = CloverConfig.parse(
    {
        "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2,
        "layer_types": ["linear_attention", "full_attention"],
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64, "max_position_embeddings": 512,
        "block_size": 32, "mask_token_id": MASK, "tie_word_embeddings": True,
    }
)  # fmt: skip


def conversation(number: int) -> Example:
    """Eight fixed questions; an answer is a fixed random text of 20 to 40 tokens, so of one or two blocks."""
    rng = random.Random(number)
    question = [rng.randrange(50) for _ in range(9)] + [ASK]
    answer = [rng.randrange(50) for _ in range(rng.randint(20, 40))] + [STOP]
    return Example(question + answer, (Span(10, 10 + len(answer), scored=True),))


def stream(path: str, seed: int, worker: int, workers: int) -> Iterator[Example]:
    rng = random.Random(seed)
    while True:
        yield conversation(rng.randrange(8))


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("eight_questions")
    module.stream = stream  # type: ignore[attr-defined]
    module.heldout = lambda path, count: [conversation(n) for n in range(count)]  # type: ignore[attr-defined]
    module.score = lambda expected, actual: {"exact": expected == actual}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "eight_questions", module)
    return "eight_questions"


def build(source: str, folder: Path, steps: int, exported: list[Path]) -> Trainer:
    buckets = shapes(512, (64,), 32, 32)
    feed = Feed(FeedSettings(source, "", 1, 0, 32, PAD), buckets, torch.device("cpu"))
    return Trainer(
        initialise(CONFIG, 1), feed, Plan(3600, steps, 1e-2, log_every=10), Recipe(), folder,
        device=torch.device("cpu"), compute=torch.float32, compiled=False, stop_id=STOP, pad_id=PAD,
        heldout=[conversation(n) for n in range(8)], decode=lambda ids: " ".join(map(str, ids)),
        score=lambda expected, actual: {"exact": expected == actual},
        export=lambda model, path: exported.append(path),
    )  # fmt: skip


def test_a_tiny_model_learns_its_answers_and_the_engine_model_gives_them(source: str, tmp_path: Path) -> None:
    exported: list[Path] = []
    trainer = build(source, tmp_path, 200, exported)
    trainer.run()
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    steps = [record for record in log if record["event"] == "step"]
    assert steps[-1]["masked_loss"] < 0.5 * steps[0]["masked_loss"]
    final = [record for record in log if record["event"] == "evaluation"][-1]
    assert final["exact"] >= 7 / 8
    assert exported == [tmp_path / "checkpoint"]

    example = conversation(3)  # the engine's own passes, one preview of an all-mask block, agree
    model = trainer.model
    with torch.no_grad():
        state = model.new_state()
        model.causal(torch.tensor(list(example.tokens[:10])), state, logits="none")
        picked = model.preview(torch.full((32,), MASK), state).argmax(-1)
    wanted = torch.tensor((list(example.tokens[10:]) + [PAD] * 32)[:32])
    assert (picked == wanted).float().mean() > 0.9


def test_a_resumed_run_goes_on_where_it_stopped(source: str, tmp_path: Path) -> None:
    first = build(source, tmp_path, 3, [])
    first.heldout = []
    first.run()
    second = build(source, tmp_path, 5, [])
    second.heldout = []
    second.resume()
    for ours, theirs in zip(first.model.parameters(), second.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert second.run().step == 5


def test_the_same_seed_gives_the_same_weights(source: str, tmp_path: Path) -> None:
    models: list[Clover] = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        trainer = build(source, tmp_path / name, 3, [])
        trainer.heldout = []
        # the rate follows the time as well as the steps; an hour's plan makes that part equal to 1e-3
        trainer.run()
        models.append(trainer.model)
    for ours, theirs in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def test_blocks_are_cut_from_the_span_start_and_wrong_edits_left_out() -> None:
    example = Example([0] * 100, (Span(7, 72), Span(80, 90, weight=0.0)))
    assert candidate_blocks(example, 32) == [(7, 72, 1.0), (39, 72, 1.0), (71, 72, 1.0)]


def test_buckets_must_fit() -> None:
    with pytest.raises(ValueError, match="bucket 100"):
        shapes(3200, (100,), 32, 32)
