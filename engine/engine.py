"""The engine: a checkpoint, loaded, that continues prompts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from engine.checkpoint import load_model
from engine.decode.auto import FIRST, AutoDecoder
from engine.decode.autoregressive import AutoregressiveDecoder
from engine.decode.controls import Controls
from engine.decode.diffusion import DiffusionDecoder
from engine.decode.loops import LoopGuard
from engine.decode.run import Decoder, Run, Step
from engine.decode.search import ReplySearch
from engine.decode.speculative import SpeculativeDecoder
from engine.decode.tally import Tally
from engine.errors import ContextLimitError, EngineError
from engine.events import Event, Tokens
from engine.generation_config import GenerationConfig
from engine.model import packed
from engine.params import DecodeSettings, GenerationParams, resolve
from engine.prefix_cache import PrefixCache
from engine.tokenizer import Tokenizer
from engine.toolcalls import THINK_OPEN

if TYPE_CHECKING:
    from engine.constraints import Constraint
    from engine.decode.constraint import Cursor
    from engine.grammar import Compiler
    from engine.model.clover import Clover

PREFILL_CHUNK = 2048  # tokens between two looks at the deadline while a prompt is read
CACHE_BYTES = {"cpu": 256 << 20}
CACHE_BYTES_DEVICE = 4 << 30

_DECODERS: dict[str, Callable[[Run], Decoder]] = {
    "diffusion": DiffusionDecoder,
    "autoregressive": AutoregressiveDecoder,
    "speculative": SpeculativeDecoder,
}


class Engine:
    """One model on one device. Generations run one after the other; the object is not for several threads at once."""

    def __init__(
        self,
        model: Clover,
        tokenizer: Tokenizer,
        generation_config: GenerationConfig,
        *,
        cache_bytes: int | None = None,
    ) -> None:
        """cache_bytes: bound of the prefix cache, 0 for none; by default 256 MiB on a CPU, 4 GiB elsewhere."""
        self.model = model
        self.config = model.config
        self.tokenizer = tokenizer
        self.generation_config = generation_config
        self.device = next(model.parameters()).device
        default = CACHE_BYTES.get(self.device.type, CACHE_BYTES_DEVICE)
        self.prefix_cache = PrefixCache(default if cache_bytes is None else cache_bytes)
        self._compiler: Compiler | None = None
        self._favourite = FIRST  # the mode that was fastest in the last `auto` response

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: str = "cpu",
        dtype: torch.dtype | None = None,
        threads: int | None = None,
        *,
        cache_bytes: int | None = None,
    ) -> Engine:
        """Load a checkpoint folder.

        dtype: of the weights; by default bfloat16 on a GPU, and on a CPU float16 in packed form under float32
        arithmetic (`engine.model.packed`), or float32 where torch lacks that. threads: CPU threads of this process.
        Raises CheckpointError or TokenizerError, one line.
        """
        if threads is not None:
            if threads < 1:
                raise EngineError(f"threads must be at least 1, not {threads}")
            torch.set_num_threads(threads)
        model = load_model(folder, device=device, dtype=dtype)
        if dtype is None and torch.device(device).type == "cpu" and packed.available():
            model.pack()
        return cls(
            model, Tokenizer.load(folder), GenerationConfig.load(folder, model.config.extra), cache_bytes=cache_bytes
        )

    def generate(self, prompt_ids: Sequence[int], params: GenerationParams | None = None) -> Iterator[Event]:
        """Continue a prompt; events come as blocks fill and resolve, `Finished` last.

        Checks the request at once. Raises ContextLimitError when prompt, response and the room of its last block do
        not fit, EngineError for any other request that can't be served.
        """
        params = params or GenerationParams()
        prompt = list(prompt_ids)
        settings = self._settle(prompt, params)
        return self._events(prompt, settings, params, self._grammar(settings, params.constraint))

    def search(self, prompt_ids: Sequence[int], max_new_tokens: int = 256) -> ReplySearch:
        """Replies to a prompt in the order of their probability. Raises as `generate` does."""
        prompt = list(prompt_ids)
        settings = self._settle(prompt, GenerationParams(max_new_tokens=max_new_tokens, mode="autoregressive"))
        state, logits, cached = self._resume(prompt)
        if cached < len(prompt):
            logits = self._read(prompt[cached:], state, last=True)
            self.prefix_cache.put(prompt, state.clone(), logits)
        assert logits is not None
        return ReplySearch(
            self.model,
            prompt,
            state,
            logits,
            stop_ids=settings.controls.stop_ids,
            banned=(self.config.mask_token_id,),
            limit=settings.max_new_tokens,
        )

    def _settle(self, prompt: list[int], params: GenerationParams) -> DecodeSettings:
        limit = self.config.max_position_embeddings
        if not prompt:
            raise EngineError("the prompt is empty: give at least one token")
        if not all(0 <= token < self.config.vocab_size for token in prompt):
            raise EngineError(f"the prompt has ids outside the vocabulary of {self.config.vocab_size}")
        try:
            settings = resolve(
                params,
                self.generation_config,
                mask_token_id=self.config.mask_token_id,
                trained_block=self.config.block_size,
                threshold=self.config.threshold,
                room=limit - len(prompt),
                thinking=self.leaves_thinking_open(prompt),
            )
        except ValueError as fault:
            raise EngineError(str(fault)) from None
        block = settings.block
        reach = -(-settings.max_new_tokens // block) * block
        if len(prompt) + reach > limit:
            raise ContextLimitError(
                f"the prompt's {len(prompt)} tokens and a response of up to {settings.max_new_tokens} "
                f"(in blocks of {block}: {reach}) exceed the context of {limit}: shorten the prompt or the response"
            )
        return settings

    def leaves_thinking_open(self, prompt: Sequence[int]) -> bool:
        """Whether a response to this prompt starts inside a think section."""
        opening = self.tokenizer.special.get(THINK_OPEN)
        tags = (opening, self.generation_config.think_end_token_id)
        return next((token == opening for token in reversed(prompt) if token in tags), False)

    def _grammar(self, settings: DecodeSettings, constraint: Constraint | None) -> Cursor | None:
        if constraint is None:
            return None
        if self._compiler is None:
            from engine.grammar import Compiler

            self._compiler = Compiler(self.tokenizer, self.config.vocab_size, self.device)
        return self._compiler.cursor(constraint, settings.controls)

    def _events(
        self, prompt: list[int], settings: DecodeSettings, params: GenerationParams, grammar: Cursor | None
    ) -> Iterator[Event]:
        tally = Tally(len(prompt))
        state, logits, cached = self._resume(prompt)
        at = cached
        while at < len(prompt):
            if _over(params.deadline):
                yield tally.finished("deadline", cached)
                return
            chunk = prompt[at : at + PREFILL_CHUNK]
            at += len(chunk)
            logits = self._read(chunk, state, last=at == len(prompt))
        if cached < len(prompt):
            self.prefix_cache.put(prompt, state.clone(), logits)
        run = self._run(settings, state, logits, guard=params.loop_guard, grammar=grammar)
        auto = AutoDecoder(run, self._favourite) if settings.mode == "auto" else None
        decoder = auto or _DECODERS[settings.mode](run)
        tally.prompt_read()
        reason = ""
        while not reason:
            if _over(params.deadline):
                reason = "deadline"
                break
            step = self._step(decoder)
            tally.add(step)
            if step.update is not None:
                yield step.update
            if step.tokens:
                yield Tokens(step.tokens, step.confidence)
            reason = step.finish
        if run.committed:
            self.prefix_cache.put(prompt + run.response[: run.committed], run.state)
        if auto is not None:
            self._favourite = auto.best
        yield tally.finished(reason, cached)

    def _run(
        self, settings: DecodeSettings, state: Any, logits: Tensor | None, *, guard: bool, grammar: Cursor | None
    ) -> Run:
        wanted = settings.controls
        return Run(
            self.model,
            state,
            settings=settings,
            controls=Controls(wanted, self.config.vocab_size, self.device),
            logits=logits,
            grammar=grammar,
            guard=LoopGuard(thinking=wanted.thinking, think_end=wanted.think_end_token_id) if guard else None,
        )

    def _resume(self, prompt: list[int]) -> tuple[Any, Tensor | None, int]:
        """A state of the longest known beginning of `prompt`, the logits after it, and its length."""
        known = self.prefix_cache.find(prompt)
        if known is None:
            return self.model.new_state(), None, 0
        return known.state.clone(), known.logits, len(known.tokens)

    @torch.inference_mode()
    def _read(self, tokens: list[int], state: Any, *, last: bool) -> Tensor | None:
        with _memory_named(self.device):
            return self.model.causal(torch.tensor(tokens, device=self.device), state, "last" if last else "none")

    @torch.inference_mode()
    def _step(self, decoder: Decoder) -> Step:
        with _memory_named(self.device):
            return decoder.step()


@contextmanager
def _memory_named(device: torch.device) -> Iterator[None]:
    """Turn what an allocator says into one line."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as fault:
        if isinstance(fault, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(fault):
            raise EngineError(f"out of memory on {device}: shorten the prompt, or free memory there") from None
        raise


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
