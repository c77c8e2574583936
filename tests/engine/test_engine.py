"""The engine on tiny random checkpoints, against recorded outputs and against itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.engine import Engine
from engine.errors import CheckpointError, ContextLimitError, EngineError, TokenizerError
from engine.events import BlockUpdate, Event, Finished, Tokens
from engine.generation_config import Ramp
from engine.params import GenerationParams, Mode

TINY = Path(__file__).parents[1] / "data" / "tiny-clover"
FOLDERS = sorted(path.name for path in TINY.iterdir() if path.is_dir())
CASES = [
    (folder, index, mode)
    for folder in FOLDERS
    for index, case in enumerate(json.loads((TINY / folder / "expected.json").read_text()))
    for mode in case
    if not mode.startswith("prompt")
]
PROMPT = [285, 296, 83, 293, 280, 25, 292, 282]


@pytest.fixture(scope="module")
def engines() -> dict[str, Engine]:
    """In float64, as the outputs were recorded: random routers have near ties that float32 decides by chance."""
    return {folder: Engine.load(TINY / folder, dtype=torch.float64) for folder in FOLDERS}


@pytest.fixture
def engine(engines: dict[str, Engine]) -> Engine:
    engine = engines["fused-8-layers"]
    engine.prefix_cache.clear()
    return engine


def ids_of(events: list[Event]) -> list[int]:
    return [token for event in events if isinstance(event, Tokens) for token in event.ids]


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def recorded_params(mode: str) -> GenerationParams:
    """The request behind a recorded mode: `speculative_typical_8_delta_0.003` and the like."""
    if not mode.startswith("speculative"):
        return GenerationParams(mode=mode, early_exit=False)
    _, acceptance, width, *delta = mode.split("_")
    changes = {"typical_delta": float(delta[1])} if delta else {}
    return GenerationParams(mode="speculative", acceptance=acceptance, draft_width=int(width), **changes)


@pytest.mark.parametrize(("folder", "index", "mode"), CASES)
def test_recorded_outputs(engines: dict[str, Engine], folder: str, index: int, mode: str) -> None:
    engine = engines[folder]
    case = json.loads((TINY / folder / "expected.json").read_text())[index]
    assert engine.tokenizer.encode(case["prompt"]) == case["prompt_ids"]
    wanted, whole = case[mode], mode != "diffusion" or index < 2  # for the others, the first block
    length = wanted["max_new_tokens"] if whole else engine.config.block_size
    events = list(engine.generate(case["prompt_ids"], replace(recorded_params(mode), max_new_tokens=length)))
    assert ids_of(events) == wanted["token_ids"][:length]
    confidence = [c for event in events if isinstance(event, Tokens) for c in event.confidence]
    assert confidence == pytest.approx(wanted["confidence"][:length], abs=1e-4)
    if whole:
        done = last(events)
        forwards = done.passes + (done.commits if mode != "diffusion" else 0)
        assert forwards == wanted["passes"]


def test_early_exit_saves_passes_and_keeps_the_text(engine: Engine) -> None:
    params = GenerationParams(max_new_tokens=4)
    slow = list(engine.generate(PROMPT, replace(params, early_exit=False)))
    quick = list(engine.generate(PROMPT, params))
    assert ids_of(quick) == ids_of(slow)
    assert last(quick).passes < last(slow).passes


def test_the_think_end_ramp_works_where_thinking_is_open(engines: dict[str, Engine]) -> None:
    engine = engines["per-expert-ramps"]
    opening, closing = engine.tokenizer.token_id("<think>"), engine.tokenizer.token_id("</think>")
    params = GenerationParams(mode="autoregressive", max_new_tokens=4, think_end_ramp=Ramp(100.0, 0, 1))
    assert ids_of(list(engine.generate([5, opening], params)))[0] == closing
    assert closing not in ids_of(list(engine.generate([5, opening], params)))[1:]
    assert closing not in ids_of(list(engine.generate([opening, closing, 5], params)))


def test_events_tell_the_blocks_story(engine: Engine) -> None:
    events = list(engine.generate(PROMPT, GenerationParams(max_new_tokens=40)))
    shown: dict[int, tuple[int, ...]] = {}
    for event in events:
        if isinstance(event, BlockUpdate):
            shown[event.block] = event.tokens
    text = ids_of(events)
    assert text == [token for block in shown.values() for token in block][: len(text)]
    done = last(events)
    assert (done.reason, done.completion_tokens, done.prompt_tokens, done.commits) == ("length", 40, len(PROMPT), 1)
    assert done.passes == sum(isinstance(event, BlockUpdate) for event in events)


@pytest.mark.parametrize("mode", ["diffusion", "autoregressive"])
def test_the_prefix_cache_changes_no_text(engine: Engine, mode: Mode) -> None:
    params = GenerationParams(mode=mode, max_new_tokens=40, threshold=0.4)
    cold = Engine(engine.model, engine.tokenizer, engine.generation_config, cache_bytes=0)
    prompt = list(PROMPT)
    for turn in range(3):
        warm_events, cold_events = list(engine.generate(prompt, params)), list(cold.generate(prompt, params))
        assert ids_of(warm_events) == ids_of(cold_events)
        assert last(cold_events).cached_tokens == 0
        if turn:
            # All but the uncommitted end of the last response, and what came after it, was at hand.
            assert last(warm_events).cached_tokens >= len(prompt) - 3 - 32
        prompt += [*ids_of(warm_events), 10, 20, 30]
    again = list(engine.generate(prompt[:-3], params))
    assert last(again).cached_tokens > 0
    repeat = list(engine.generate(prompt[:-3], params))
    assert last(repeat).cached_tokens == len(prompt) - 3
    assert ids_of(repeat) == ids_of(again) == ids_of(list(cold.generate(prompt[:-3], params)))


def test_a_long_prompt_is_read_in_chunks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = [(7 * i) % 290 for i in range(200)]
    whole = ids_of(list(engine.generate(prompt, GenerationParams(max_new_tokens=32))))
    engine.prefix_cache.clear()
    monkeypatch.setattr("engine.engine.PREFILL_CHUNK", 64)
    assert ids_of(list(engine.generate(prompt, GenerationParams(max_new_tokens=32)))) == whole


def test_context_limit_is_refused_at_once(engine: Engine) -> None:
    limit = engine.config.max_position_embeddings
    with pytest.raises(ContextLimitError, match=rf"8 tokens .* {limit - 8} .* {limit}"):
        engine.generate(PROMPT, GenerationParams(max_new_tokens=limit - 8))  # fits but for the last block's room
    engine.generate(PROMPT, GenerationParams(max_new_tokens=limit - 8, mode="autoregressive"))
    with pytest.raises(ContextLimitError):
        engine.generate([1] * (limit - 10))


@pytest.mark.parametrize(
    ("prompt", "params", "complaint"),
    [
        ([], GenerationParams(), "prompt is empty"),
        ([384], GenerationParams(), "outside the vocabulary of 384"),
        ([-1], GenerationParams(), "outside the vocabulary"),
        (PROMPT, GenerationParams(block_size=5), "does not divide"),
    ],
)
def test_requests_that_make_no_sense(
    engine: Engine, prompt: list[int], params: GenerationParams, complaint: str
) -> None:
    with pytest.raises(EngineError, match=complaint) as caught:
        engine.generate(prompt, params)
    assert "\n" not in str(caught.value)


def test_smaller_blocks_give_a_whole_response(engine: Engine) -> None:
    events = list(engine.generate(PROMPT, GenerationParams(block_size=8, max_new_tokens=20)))
    assert len(ids_of(events)) == 20
    assert {len(event.tokens) for event in events if isinstance(event, BlockUpdate)} == {8}


def test_deadline_is_kept_between_passes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("engine.engine.time.monotonic", lambda: now[0])
    seen: list[Event] = []
    for event in engine.generate(PROMPT, GenerationParams(max_new_tokens=64, deadline=5.0)):
        seen.append(event)
        now[0] += 1.0
    assert [type(event) for event in seen] == [BlockUpdate] * 5 + [Finished]
    assert (last(seen).reason, last(seen).completion_tokens, last(seen).passes) == ("deadline", 0, 5)
    late = list(engine.generate([1, *PROMPT], GenerationParams(max_new_tokens=64, deadline=0.0)))
    assert [type(event) for event in late] == [Finished]


def test_sampling_repeats_with_its_seed(engine: Engine) -> None:
    def text(seed: int) -> list[int]:
        return ids_of(list(engine.generate(PROMPT, GenerationParams(max_new_tokens=32, temperature=1.0, seed=seed))))

    assert text(1) == text(1)
    assert len({tuple(text(seed)) for seed in range(3)}) > 1


def test_broken_folders_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        Engine.load(tmp_path / "nowhere")
    assert "\n" not in str(caught.value)
    folder = tmp_path / "tiny"
    shutil.copytree(TINY / "fused-8-layers", folder)
    (folder / "generation_config.json").write_text('{"presence_penalty": "much"}')
    with pytest.raises(CheckpointError, match="presence_penalty"):
        Engine.load(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match=r"tokenizer\.json is missing"):
        Engine.load(folder)
    with pytest.raises(EngineError, match="threads"):
        Engine.load(folder, threads=0)


def test_no_transformers_at_run_time() -> None:
    code = (
        "import sys; from engine.engine import Engine; from engine.params import GenerationParams as P;"
        f"list(Engine.load({str(TINY / 'fused-8-layers')!r}, threads=1).generate([1, 2], P(max_new_tokens=1)));"
        "sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_threads_are_set() -> None:
    before = torch.get_num_threads()
    try:
        Engine.load(TINY / "fused-8-layers", threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
