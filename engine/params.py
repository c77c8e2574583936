"""What a request may ask for, and what that comes to on a given checkpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from engine.generation_config import NO_RAMP, GenerationConfig, Ramp

if TYPE_CHECKING:
    from engine.constraints import Constraint

Mode = Literal["diffusion", "autoregressive", "speculative", "auto"]
Acceptance = Literal["exact", "typical"]
BLOCK_MODES = ("diffusion", "auto")  # modes that may write a whole block beyond what is wanted
DRAFT_WIDTH = 16  # rows of a draft round, the vendor's


@dataclass(frozen=True)
class GenerationParams:
    """One request. None means the checkpoint's default. Wrong values raise ValueError, one line.

    temperature: 0 is greedy. top_k: 0 is off. deadline: `time.monotonic()` value checked between passes.
    early_exit: leave a block as soon as its remaining rows can't change the text; costs fewer passes, same text.
    acceptance: which drafts `speculative` takes; "exact" keeps the causal output, "typical" (the vendor's rule) is
    lossy. draft_width: rows of a draft round, a divisor of the checkpoint's block size. thinking_budget: tokens after
    which an open think section is closed. coreset_top_p: mass of a preview's expert coreset, 1 for all experts.
    suppress_tokens: ids that never occur, besides the checkpoint's own. loop_guard: end a response that goes in
    circles. constraint: what the response must look like (`engine.constraints`).
    """

    mode: Mode = "diffusion"
    max_new_tokens: int | None = None
    block_size: int | None = None
    threshold: float | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    length_ramp: Ramp | None = None
    think_end_ramp: Ramp | None = None
    deadline: float | None = None
    early_exit: bool = True
    acceptance: Acceptance = "exact"
    draft_width: int | None = None
    typical_ratio: float = 0.9
    typical_delta: float = 0.6
    thinking_budget: int | None = None
    coreset_top_p: float | None = None
    suppress_tokens: tuple[int, ...] = ()
    loop_guard: bool = True
    constraint: Constraint | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, not {self.mode!r}")
        if self.acceptance not in get_args(Acceptance):
            raise ValueError(f"acceptance must be one of {', '.join(get_args(Acceptance))}, not {self.acceptance!r}")
        for name in ("max_new_tokens", "block_size", "draft_width"):
            _check(name, getattr(self, name), "a whole number of at least 1", whole=True, low=1)
        _check("threshold", self.threshold, "between 0 and 1", low=0, high=1)
        _check("temperature", self.temperature, "0 (greedy) or more", low=0)
        _check("top_p", self.top_p, "above 0 and at most 1", low=math.ulp(0.0), high=1)
        _check("top_k", self.top_k, "a whole number, 0 for off", whole=True, low=0)
        _check("seed", self.seed, "a whole number from 0 to 2**63 - 1", whole=True, low=0, high=2**63 - 1)
        _check("presence_penalty", self.presence_penalty, "a number")
        _check("frequency_penalty", self.frequency_penalty, "a number")
        _check("repetition_penalty", self.repetition_penalty, "above 0", low=math.ulp(0.0))
        _check("deadline", self.deadline, "a time.monotonic() value")
        _check("typical_ratio", self.typical_ratio, "between 0 and 1", low=0, high=1)
        _check("typical_delta", self.typical_delta, "0 or more", low=0)
        _check("thinking_budget", self.thinking_budget, "a whole number of at least 0", whole=True, low=0)
        _check("coreset_top_p", self.coreset_top_p, "between 0 and 1", low=0, high=1)
        for token in self.suppress_tokens:
            _check("suppress_tokens", token, "token ids of at least 0", whole=True, low=0)


@dataclass(frozen=True)
class ControlSettings:
    """Everything that changes logits before a pick (`engine.decode.controls`). thinking: the prompt leaves a think
    section open."""

    mask_token_id: int
    suppressed: tuple[int, ...] = ()
    stop_ids: tuple[int, ...] = ()
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    length_ramp: Ramp = NO_RAMP
    think_end_ramp: Ramp = NO_RAMP
    think_end_token_id: int | None = None
    thinking: bool = False


@dataclass(frozen=True)
class DecodeSettings:
    """A request with nothing left open. coreset_top_p: None leaves it to the checkpoint."""

    mode: Mode
    block_size: int
    threshold: float
    max_new_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int
    early_exit: bool
    controls: ControlSettings
    acceptance: Acceptance = "exact"
    draft_width: int = DRAFT_WIDTH
    typical_ratio: float = 0.9
    typical_delta: float = 0.6
    thinking_budget: int | None = None
    coreset_top_p: float | None = None

    @property
    def block(self) -> int:
        """Tokens that the response grows by at once, for which the context needs room: 1 in the causal modes."""
        return self.block_size if self.mode in BLOCK_MODES else 1


def resolve(
    params: GenerationParams,
    defaults: GenerationConfig,
    *,
    mask_token_id: int,
    trained_block: int,
    threshold: float,
    room: int,
    thinking: bool,
) -> DecodeSettings:
    """Fill a request's gaps.

    trained_block: the checkpoint's block size, which a smaller one must divide. threshold: the checkpoint's own.
    room: positions that the context has left after the prompt; only a *default* response length shrinks to it.
    thinking: the prompt leaves a think block open; without one there is nothing for the think-end ramp to end
    (the recorded outputs of the tiny checkpoints agree).
    Raises ValueError, one line.
    """
    block = params.block_size or trained_block
    if trained_block % block:
        raise ValueError(f"block_size {block} does not divide the checkpoint's block size {trained_block}")
    width = params.draft_width or math.gcd(DRAFT_WIDTH, trained_block)
    if trained_block % width:
        raise ValueError(f"draft_width {width} does not divide the checkpoint's block size {trained_block}")
    if params.thinking_budget is not None and thinking and defaults.think_end_token_id is None:
        raise ValueError("thinking_budget needs dllm_think_end_token_id in the checkpoint's generation_config.json")
    wanted = params.max_new_tokens
    if wanted is None:
        unit = block if params.mode in BLOCK_MODES else 1
        most = max(room // unit * unit, 1)
        wanted = min(defaults.max_new_tokens or most, most)
    return DecodeSettings(
        mode=params.mode,
        block_size=block,
        threshold=_given(params.threshold, threshold),
        max_new_tokens=wanted,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        seed=params.seed,
        early_exit=params.early_exit,
        controls=ControlSettings(
            mask_token_id=mask_token_id,
            suppressed=(*defaults.suppress_tokens, *params.suppress_tokens),
            stop_ids=defaults.stop_ids,
            presence_penalty=_given(params.presence_penalty, defaults.presence_penalty),
            frequency_penalty=_given(params.frequency_penalty, defaults.frequency_penalty),
            repetition_penalty=_given(params.repetition_penalty, defaults.repetition_penalty),
            length_ramp=params.length_ramp or defaults.length_ramp,
            think_end_ramp=(params.think_end_ramp or defaults.think_end_ramp) if thinking else NO_RAMP,
            think_end_token_id=defaults.think_end_token_id,
            thinking=thinking,
        ),
        acceptance=params.acceptance,
        draft_width=width,
        typical_ratio=params.typical_ratio,
        typical_delta=params.typical_delta,
        thinking_budget=params.thinking_budget,
        coreset_top_p=params.coreset_top_p,
    )


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


def _check(
    name: str, value: float | None, rule: str, *, whole: bool = False, low: float = -math.inf, high: float = math.inf
) -> None:
    if value is None:
        return
    number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{name} must be {rule}, not {value!r}")
