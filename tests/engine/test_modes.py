"""What the modes promise each other: equal greedy output, equal distributions, one state behind all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.decode.auto import AutoDecoder
from engine.decode.controls import Controls
from engine.decode.loops import PATIENCE, REPEATED, LoopGuard
from engine.decode.run import Run, Step
from engine.decode.speculative import SpeculativeDecoder
from engine.engine import Engine
from engine.events import Event, Finished, Tokens
from engine.generation_config import NO_RAMP, Ramp
from engine.params import ControlSettings, DecodeSettings, GenerationParams
from engine.tokenizer import Tokenizer

TINY = Path(__file__).parents[1] / "data" / "tiny-clover"
FOLDERS = sorted(path.name for path in TINY.iterdir() if path.is_dir())
MODES = ("autoregressive", "diffusion", "speculative", "auto")


@pytest.fixture(scope="module")
def engines() -> dict[str, Engine]:
    """In fp32, the modes' own precision on a CPU."""
    return {folder: Engine.load(TINY / folder, dtype=torch.float32, cache_bytes=0) for folder in FOLDERS}


def ids_of(events: list[Event]) -> list[int]:
    return [token for event in events if isinstance(event, Tokens) for token in event.ids]


def prompts(count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(0, 290, (1 + n % 9,), generator=generator).tolist() for n in range(count)]


def exact_equals_autoregressive(engine: Engine, prompt: list[int], length: int) -> None:
    ramps = {"length_ramp": Ramp(4.0, 12, 8), "think_end_ramp": Ramp(6.0, 4, 8)}
    prompt = [*prompt, engine.tokenizer.token_id("<think>")]
    params = GenerationParams(mode="autoregressive", max_new_tokens=length, frequency_penalty=0.2, **ramps)
    expected = list(engine.generate(prompt, params))
    width = (4, 8, 16, 32)[len(prompt) % 4]
    drafted = list(engine.generate(prompt, replace(params, mode="speculative", draft_width=width)))
    assert ids_of(drafted) == ids_of(expected)
    assert isinstance(drafted[-1], Finished) and isinstance(expected[-1], Finished)
    assert drafted[-1].reason == expected[-1].reason


@pytest.mark.parametrize("prompt", prompts(4))
@pytest.mark.parametrize("folder", FOLDERS)
def test_exact_speculation_is_greedy_decoding(engines: dict[str, Engine], folder: str, prompt: list[int]) -> None:
    exact_equals_autoregressive(engines[folder], prompt, 24)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(200))
def test_exact_speculation_over_200_prompts(engines: dict[str, Engine], number: int) -> None:
    exact_equals_autoregressive(engines[FOLDERS[number % 3]], prompts(200)[number], 48)


VOCAB, MASK, STOP, THINK_END = 6, 5, 4, 3
CONTROLS = ControlSettings(mask_token_id=MASK, stop_ids=(STOP,), think_end_token_id=THINK_END)
SETTINGS = DecodeSettings(
    mode="speculative",
    block_size=4,
    threshold=0.5,
    max_new_tokens=3,
    temperature=0.8,
    top_p=0.95,
    top_k=5,
    seed=0,
    early_exit=True,
    controls=CONTROLS,
    draft_width=4,
)


class MarkovModel:
    """The next token depends on the one before; previews are wrong on purpose. The state is the committed tokens."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.table = torch.randn(VOCAB, VOCAB, generator=generator) * 1.5
        self.guesses = torch.randn(8, VOCAB, generator=generator)
        self.passes = 0

    def causal(self, tokens: torch.Tensor, state: list[int], logits: str = "last") -> torch.Tensor | None:
        state.extend(tokens.tolist())
        return self.table[tokens[-1:]] if logits == "last" else None

    def preview(self, tokens: torch.Tensor, state: list[int], top_p: float | None = None) -> torch.Tensor:
        return self.guesses[: len(tokens)] + self.table[tokens[0]]

    def verify(self, tokens: torch.Tensor, state: list[int]) -> tuple[torch.Tensor, Rows]:
        return self.table[tokens], Rows(tokens.tolist(), state)


class Rows:
    """A landing of the table model."""

    def __init__(self, tokens: list[int], state: list[int]) -> None:
        self._tokens, self._state = tokens, state

    def land(self, count: int) -> None:
        self._state.extend(self._tokens[:count])


def run_of(model: MarkovModel, settings: DecodeSettings, guard: LoopGuard | None = None) -> Run:
    controls = Controls(settings.controls, VOCAB)
    return Run(model, [], settings=settings, controls=controls, logits=model.table[:1], guard=guard)


def steps_of(run: Run) -> list[Step]:
    decoder = SpeculativeDecoder(run)
    steps = [decoder.step()]
    while not steps[-1].finish:
        steps.append(decoder.step())
    return steps


@torch.inference_mode()
def test_speculative_sampling_keeps_the_causal_distribution() -> None:
    """Chi-square over all sequences of four tokens, against the product of the causal distributions."""
    from engine.decode.sampling import distribution

    model, draws = MarkovModel(), 3000
    seen: dict[tuple[int, ...], int] = {}
    accepted = 0
    for seed in range(draws):
        run = run_of(model, replace(SETTINGS, seed=seed, max_new_tokens=5))  # one token, then three drafts
        accepted += sum(step.accepted for step in steps_of(run))
        assert run.state == run.response[: run.committed]
        seen[tuple(run.response[:4])] = seen.get(tuple(run.response[:4]), 0) + 1
    assert accepted > draws / 4
    scores = Controls(CONTROLS, VOCAB).apply(model.table, torch.ones(VOCAB))
    p = distribution(scores, SETTINGS)
    expected: dict[tuple[int, ...], float] = {}

    def walk(prefix: tuple[int, ...], last: int, mass: float) -> None:
        if len(prefix) == 4 or (prefix and prefix[-1] == STOP):
            expected[prefix] = mass
            return
        for token in range(VOCAB):
            if p[last, token] > 0:
                walk((*prefix, token), token, mass * float(p[last, token]))

    walk((), 0, 1.0)
    assert set(seen) <= set(expected)
    cells = [(seen.get(key, 0), draws * mass) for key, mass in expected.items()]
    rare = [cell for cell in cells if cell[1] < 5]
    cells = [cell for cell in cells if cell[1] >= 5] + [(sum(o for o, _ in rare), sum(e for _, e in rare) or 1e-9)]
    statistic = sum((observed - wanted) ** 2 / wanted for observed, wanted in cells if wanted > 1)
    freedom = len(cells) - 1
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5  # four standard deviations of chi-square


def test_thinking_is_closed_at_its_budget_in_every_mode(engines: dict[str, Engine]) -> None:
    engine = engines["fused-8-layers"]
    opening, closing = engine.tokenizer.token_id("<think>"), engine.tokenizer.token_id("</think>")
    for mode, budget in (*((mode, 7) for mode in MODES), ("autoregressive", 0), ("diffusion", 33)):
        params = GenerationParams(mode=mode, max_new_tokens=budget + 3, thinking_budget=budget, threshold=0.3)
        response = ids_of(list(engine.generate([5, opening], params)))
        assert closing in response[: budget + 1]
    params = GenerationParams(mode="autoregressive", max_new_tokens=4, thinking_budget=1)
    assert closing not in ids_of(list(engine.generate([5, 6], params)))  # no think section is open


def test_auto_takes_the_fastest_mode_and_gives_up_slow_blocks() -> None:
    now = [0.0]
    model = MarkovModel()
    cost = {"preview": 1.0, "verify": 1.0, "causal": 0.1}
    for name, seconds in cost.items():
        inner = getattr(model, name)

        def timed(*given: object, _inner=inner, _seconds=seconds) -> object:
            now[0] += _seconds
            return _inner(*given)

        setattr(model, name, timed)
    model.causal = (
        lambda tokens, state, logits="last": (  # type: ignore[method-assign]
            now.__setitem__(0, now[0] + 0.1) or state.extend(tokens.tolist()) or model.table[tokens[-1:]]
        )
    )
    controls = replace(CONTROLS, suppressed=(STOP,))
    run = run_of(model, replace(SETTINGS, mode="auto", temperature=0.0, max_new_tokens=200, controls=controls))
    decoder = AutoDecoder(run, clock=lambda: now[0])
    written: dict[str, int] = {}
    while True:
        step = decoder.step()
        written[step.mode] = written.get(step.mode, 0) + len(step.tokens)
        if step.finish:
            break
    assert decoder.best == "autoregressive"
    assert written["autoregressive"] > 150
    assert run.state == run.response[: run.committed]


def looked_at(ids: list[int], thinking: bool = False) -> tuple[int, bool]:
    """How many ids a guard lets pass, and whether it ended the response."""
    guard, controls = LoopGuard(thinking=thinking, think_end=THINK_END), Controls(CONTROLS, 500_000)
    for count, token in enumerate(ids, 1):
        _, ended = guard.watch(token, controls)
        if ended:
            return count, True
    return len(ids), False


@pytest.mark.parametrize("period", [1, 2, 7, 40])
def test_the_guard_ends_loops_within_bounds(period: int) -> None:
    count, ended = looked_at([7 + n % period for n in range(2000)])
    assert ended and count <= max(REPEATED, 3 * period) + period + PATIENCE + 1


def test_the_guard_ends_near_identical_lines_and_circling_thoughts() -> None:
    lines = [token for n in range(200) for token in [*range(10, 30), 1000 + n]]
    assert looked_at(lines)[1]
    generator = torch.Generator().manual_seed(0)
    thoughts = [torch.randint(10, 400, (40,), generator=generator).tolist() for _ in range(4)]
    order = torch.randint(0, 4, (60,), generator=generator).tolist()
    circling = [token for n in order for token in thoughts[n]]
    assert looked_at(circling, thinking=True)[1]


def test_a_looping_checkpoint_is_ended(engines: dict[str, Engine]) -> None:
    engine = engines["per-expert-ramps"]
    calm = {"presence_penalty": 0.0, "repetition_penalty": 1.0, "length_ramp": NO_RAMP, "think_end_ramp": NO_RAMP}

    def finished(guarded: bool) -> Finished:
        params = GenerationParams(mode="diffusion", max_new_tokens=960, loop_guard=guarded, **calm)
        last = list(engine.generate([281, 297, 7, 72, 8, 198], params))[-1]
        assert isinstance(last, Finished)
        return last

    assert finished(guarded=False).reason == "length"
    watched = finished(guarded=True)
    assert watched.reason in ("repetition", "stop") and watched.completion_tokens < 700


def ordinary(folder: Path, count: int) -> list[str]:
    """Pieces of this project's own source: code with repeated lines, tables of cases, JSON, prose."""
    paths = sorted([*folder.rglob("*.py"), *folder.rglob("*.md"), *folder.rglob("config.json")])
    texts = [path.read_text(encoding="utf-8") for path in paths if ".venv" not in path.parts]
    pieces = [text[start : start + 1500] for text in texts for start in range(0, len(text), 1200)]
    tables = [
        "\n".join(f"| {n} | {n * n % 97} | {'yes' if n % k else 'no'} |" for n in range(60)) for k in range(2, 40)
    ]
    lines = ["\n".join(f"self.assertEqual(f({n}), {n * k})" for n in range(30)) for k in range(40)]
    return (tables + lines + pieces)[:count]


def test_the_guard_leaves_ordinary_outputs_alone() -> None:
    root = Path(__file__).parents[2]
    tokenizer = Tokenizer.load(root / "engine" / "checkpoints" / "clover-nano")
    outputs = ordinary(root, 1000)
    assert len(outputs) == 1000
    for text in outputs:
        guard, controls = LoopGuard(thinking=False, think_end=None), Controls(CONTROLS, 10)
        assert all(guard.watch(token, controls)[0] for token in tokenizer.encode(text)), text[:200]


def test_the_report_adds_up(engines: dict[str, Engine]) -> None:
    case = json.loads((TINY / "coreset-0.6-4-layers" / "expected.json").read_text())[0]
    params = GenerationParams(
        mode="speculative", acceptance="typical", draft_width=8, typical_delta=0.003, max_new_tokens=48
    )
    done = list(engines["coreset-0.6-4-layers"].generate(case["prompt_ids"], params))[-1]
    assert isinstance(done, Finished)
    assert done.completion_tokens == 48 and done.passes >= done.rounds > 0
    assert done.acceptance_length == pytest.approx(done.accepted / done.rounds + 1) and done.accepted > 0
    assert done.tokens_per_forward == pytest.approx(48 / (done.passes + done.commits))
    assert 0 < done.first_token_seconds <= done.seconds
