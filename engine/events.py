"""What a generation tells while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    """End of a generation, and what it took.

    reason: stop (a stop id), length (max_new_tokens), repetition (the loop guard), deadline. passes: previews;
    commits: causal passes after the prompt; cached_tokens: prompt tokens whose state was at hand already; seconds:
    wall time in all; first_token_seconds: until the first token was final (0.0 where none was); prompt_seconds: spent
    on reading the prompt. rounds: draft rounds with at least one draft; drafted and accepted: tokens in them.
    """

    reason: str
    prompt_tokens: int
    completion_tokens: int
    passes: int
    commits: int
    cached_tokens: int
    seconds: float
    first_token_seconds: float = 0.0
    prompt_seconds: float = 0.0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    mode_tokens: Mapping[str, int] = field(default_factory=dict)

    @property
    def tokens_per_pass(self) -> float:
        """Tokens per denoising pass, commits left out; 0.0 where there was none."""
        return self.completion_tokens / self.passes if self.passes else 0.0

    @property
    def tokens_per_forward(self) -> float:
        """Tokens per forward after the prompt, previews and causal passes alike."""
        forwards = self.passes + self.commits
        return self.completion_tokens / forwards if forwards else 0.0

    @property
    def acceptance_length(self) -> float:
        """Tokens that a draft round gave on average: the accepted drafts and the causal pass's own."""
        return self.accepted / self.rounds + 1 if self.rounds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second behind the reading of the prompt."""
        seconds = self.seconds - self.prompt_seconds
        return self.completion_tokens / seconds if seconds > 0 else 0.0


Event = BlockUpdate | Tokens | Finished
