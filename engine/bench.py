"""Figures of decoding: `python -m engine.bench decode`.

For each kind of text (code edits, prose) and each mode: tokens per second and tokens per forward, and what a grammar
adds per token. Prompts are fixed; one run each, after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.constraints import ToolCalls
from engine.engine import Engine
from engine.events import Finished
from engine.params import GenerationParams, Mode

NANO = Path(__file__).parent / "checkpoints" / "clover-nano"
MODES: tuple[Mode, ...] = ("autoregressive", "diffusion", "speculative", "auto")
CODE = {
    "total.py": """\
def total(values):
    result = 0
    for value in values:
        result -= value
    return result
""",
    "clamp.py": """\
def clamp(x, low, high):
    if x < low:
        return low
    if x < high:
        return high
    return x
""",
    "last.py": """\
def last(items):
    if not items:
        return None
    return items[len(items)]
""",
}
PROSE = (
    "The garden behind the house was quiet in the morning, and the old man",
    "A function returns a value to its caller. When it raises an exception instead,",
    "In the year that followed, the town grew slowly, because",
)
EDIT_TOOL = {
    "str_replace": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "old_str": {"type": "string"}, "new_str": {"type": "string"}},
        "required": ["path", "old_str", "new_str"],
    }
}


def prompts(engine: Engine, kind: str) -> list[list[int]]:
    """Prompt ids of a kind of text."""
    if kind == "prose":
        return [engine.tokenizer.encode(text) for text in PROSE]
    asked = [
        f"The tests of {name} fail. Repair the function with one edit.\n\n{name}:\n{code}"
        for name, code in CODE.items()
    ]
    return [
        engine.tokenizer.encode_chat([{"role": "user", "content": text}], enable_thinking=False)
        + engine.tokenizer.encode("<tool_call>\n<function=str_replace>\n", special=True)
        for text in asked
    ]


def measure(engine: Engine, prompt_ids: Sequence[Sequence[int]], params: GenerationParams) -> dict[str, float]:
    """Figures over some prompts, added up."""
    tokens = seconds = forwards = passes = 0.0
    for prompt in prompt_ids:
        done = next(event for event in engine.generate(prompt, params) if isinstance(event, Finished))
        tokens += done.completion_tokens
        seconds += done.seconds - done.prompt_seconds
        forwards += done.passes + done.commits
        passes += done.passes
    return {
        "tokens": tokens,
        "tokens_per_second": round(tokens / seconds, 2),
        "tokens_per_forward": round(tokens / max(forwards, 1), 3),
        "tokens_per_pass": round(tokens / passes, 3) if passes else 0.0,
    }


def grammar_overhead(engine: Engine, prompt_ids: Sequence[int], length: int) -> dict[str, float]:
    """Milliseconds that a grammar takes per token: its masks, moves and forced ids, against a pass of the model."""
    params = GenerationParams(mode="autoregressive", max_new_tokens=length)
    free = measure(engine, [prompt_ids], params)
    from engine.grammar import Compiler
    from engine.params import ControlSettings

    compiler = Compiler(engine.tokenizer, engine.config.vocab_size)
    controls = ControlSettings(engine.config.mask_token_id, stop_ids=engine.generation_config.stop_ids)
    started = time.perf_counter()
    place = compiler.cursor(ToolCalls(EDIT_TOOL, "auto"), controls)
    compiled = time.perf_counter() - started
    text = "Here is the edit. " * 4
    ids = engine.tokenizer.encode(text)
    started = time.perf_counter()
    for token in ids:
        place.mask()
        if not place.consume(token):
            raise RuntimeError("the sample text does not follow the grammar")
    spent = (time.perf_counter() - started) / len(ids)
    pass_seconds = 1 / free["tokens_per_second"]
    return {
        "compile_ms": round(1000 * compiled, 2),
        "ms_per_token": round(1000 * spent, 4),
        "pass_ms": round(1000 * pass_seconds, 2),
        "share_of_a_pass": round(spent / pass_seconds, 4),
    }


def main(arguments: list[str] | None = None) -> None:
    """Print one JSON object a line."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench", description="Figures of decoding.")
    parser.add_argument("what", choices=["decode"])
    parser.add_argument("--model", default=str(NANO), help="checkpoint folder")
    parser.add_argument("--tokens", type=int, default=96, help="ceiling of each response")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args(arguments)
    engine = Engine.load(options.model, threads=options.threads, cache_bytes=0)
    for kind in ("code edits", "prose"):
        ids = prompts(engine, kind)
        params = GenerationParams(max_new_tokens=options.tokens)
        measure(engine, ids[:1], replace(params, mode="speculative", max_new_tokens=8))
        for mode in MODES:
            figures = measure(engine, ids, replace(params, mode=mode))
            print(json.dumps({"text": kind, "mode": mode, **figures}), flush=True)
    print(json.dumps({"grammar": grammar_overhead(engine, prompts(engine, "prose")[0], options.tokens)}), flush=True)


if __name__ == "__main__":
    main()
