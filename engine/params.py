"""What a request may ask for, and what that comes to on a given checkpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from engine.generation_config import NO_RAMP, GenerationConfig, Ramp

Mode = Literal["diffusion", "autoregressive"]


@dataclass(frozen=True)
class GenerationParams:
    """One request. None means the checkpoint's default. Wrong values raise ValueError, one line.

    temperature: 0 is greedy. top_k: 0 is off. deadline: `time.monotonic()` value checked between passes.
    early_exit: leave a block as soon as its remaining rows can't change the text; costs fewer passes, same text.
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

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, not {self.mode!r}")
        for name in ("max_new_tokens", "block_size"):
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


@dataclass(frozen=True)
class ControlSettings:
    """Everything that changes logits before a pick (`engine.decode.controls`)."""

    mask_token_id: int
    suppressed: tuple[int, ...] = ()
    stop_ids: tuple[int, ...] = ()
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    length_ramp: Ramp = NO_RAMP
    think_end_ramp: Ramp = NO_RAMP
    think_end_token_id: int | None = None


@dataclass(frozen=True)
class DecodeSettings:
    """A request with nothing left open."""

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
    wanted = params.max_new_tokens
    if wanted is None:
        unit = block if params.mode == "diffusion" else 1
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
            suppressed=defaults.suppress_tokens,
            stop_ids=defaults.stop_ids,
            presence_penalty=_given(params.presence_penalty, defaults.presence_penalty),
            frequency_penalty=_given(params.frequency_penalty, defaults.frequency_penalty),
            repetition_penalty=_given(params.repetition_penalty, defaults.repetition_penalty),
            length_ramp=params.length_ramp or defaults.length_ramp,
            think_end_ramp=(params.think_end_ramp or defaults.think_end_ramp) if thinking else NO_RAMP,
            think_end_token_id=defaults.think_end_token_id,
        ),
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
