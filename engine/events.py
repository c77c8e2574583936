"""What a generation tells while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockUpdate:
    """State of the current block after one preview.

    block: index of the block in the response, from 0. tokens: `block_size` ids, the mask id where unresolved.
    confidence: probability of each row's pick in the pass that fixed it, 0.0 where unresolved.
    """

    block: int
    pass_index: int
    tokens: tuple[int, ...]
    confidence: tuple[float, ...]


@dataclass(frozen=True)
class Tokens:
    """Ids that are final, in order: a resolved block (stop id included), or one token in `autoregressive` mode.

    confidence: probability of each id in the pass that fixed it, after controls, at temperature 1.
    """

    ids: tuple[int, ...]
    confidence: tuple[float, ...] = ()


@dataclass(frozen=True)
class Finished:
    """End of a generation.

    reason: stop (a stop id), length (max_new_tokens), deadline. passes: previews; commits: causal passes after the
    prompt; cached_tokens: prompt tokens whose state was at hand already; seconds: wall time.
    """

    reason: str
    prompt_tokens: int
    completion_tokens: int
    passes: int
    commits: int
    cached_tokens: int
    seconds: float


Event = BlockUpdate | Tokens | Finished
