"""The whole model: two passes over one committed state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.config import FULL, CloverConfig
from engine.model.attention import GatedAttention
from engine.model.gated_deltanet import DeltaRows, GatedDeltaNet
from engine.model.moe import SparseMoe
from engine.model.norms import RMSNorm
from engine.model.packed import pack
from engine.model.rope import rope_table
from engine.state import AttentionState, DeltaState, State


class Layer(nn.Module):
    """A mixer (`self_attn` or `linear_attn`) and the experts, each behind a norm and around a residual."""

    def __init__(self, config: CloverConfig, kind: str) -> None:
        super().__init__()
        self.is_full = kind == FULL
        if self.is_full:
            self.self_attn = GatedAttention(config)
        else:
            self.linear_attn = GatedDeltaNet(config)
        self.mlp = SparseMoe(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self,
        x: Tensor,
        rope: tuple[Tensor, Tensor],
        state: AttentionState | DeltaState,
        *,
        block: bool,
        top_p: float | None = None,
    ) -> Tensor:
        """Rows x [n, hidden]; a preview of a block (coreset of `top_p`), or a causal pass that advances `state`."""
        normed = self.input_layernorm(x)
        if isinstance(state, AttentionState):
            mix = self.self_attn.preview if block else self.self_attn.causal
            x = x + mix(normed, rope, state)
        else:
            x = x + (self.linear_attn.preview if block else self.linear_attn.causal)(normed, state)
        return x + self.mlp(self.post_attention_layernorm(x), block=block, top_p=top_p)

    def ahead(
        self, x: Tensor, rope: tuple[Tensor, Tensor], state: AttentionState | DeltaState
    ) -> tuple[Tensor, DeltaRows | None]:
        """A causal pass over rows x [n, hidden] that commits nothing; with what it would do to a recurrent state."""
        normed = self.input_layernorm(x)
        rows = None
        if isinstance(state, AttentionState):
            x = x + self.self_attn.ahead(normed, rope, state)
        else:
            mixed, rows = self.linear_attn.ahead(normed, state)
            x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x)), rows


@dataclass(frozen=True)
class Landing:
    """Rows of a causal pass that are not committed yet. rows: one a layer, None for full attention, whose keys and
    values stand behind the committed ones already."""

    state: State
    rows: Sequence[DeltaRows | None]

    def land(self, count: int) -> None:
        """Commit the first `count` rows: attention, convolution and recurrence move to the same row. Once only."""
        for layer, done in zip(self.state.layers, self.rows, strict=True):
            if isinstance(layer, AttentionState):
                layer.length += count
            elif done is not None:
                done.land(layer, count)
        self.state.length += count


class Trunk(nn.Module):
    """Embedding, layers, final norm."""

    def __init__(self, config: CloverConfig) -> None:
        super().__init__()
        rows = torch.empty(config.vocab_size, config.hidden_size)
        if not rows.is_meta:  # there, a random start would import torch._dynamo: seconds
            nn.init.normal_(rows)
        self.embed_tokens = nn.Embedding.from_pretrained(rows, freeze=False)
        self.layers = nn.ModuleList(Layer(config, kind) for kind in config.layer_types)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Clover(nn.Module):
    """Parameter names are those of the Hugging Face checkpoint."""

    def __init__(self, config: CloverConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Trunk(config)
        self.lm_head: nn.Module = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def pack(self) -> Clover:
        """Give up all matrices but the embedding for packed ones: for inference on a CPU, where
        `engine.model.packed.available()`. From then on the model has no checkpoint to save."""
        for module in list(self.modules()):
            if isinstance(module, GatedAttention | GatedDeltaNet | SparseMoe):
                module.pack()
        self.lm_head = pack(self.lm_head)
        return self

    def new_state(self) -> State:
        """The state before the first token, on the model's device and in its dtype."""
        weight = self.model.embed_tokens.weight
        return State.empty(self.config, weight.device, weight.dtype)

    def causal(self, tokens: Tensor, state: State, logits: str = "last") -> Tensor | None:
        """Advance `state` by `tokens` [n].

        Next-token logits, float32: [n, vocab] for "all", [1, vocab] for "last", None for "none".
        """
        hidden = self._run(tokens, state, block=False)
        state.length += tokens.shape[0]
        if logits == "none":
            return None
        return self.head(hidden[-1:] if logits == "last" else hidden)

    def preview(self, tokens: Tensor, state: State, top_p: float | None = None) -> Tensor:
        """Logits [block, vocab], float32, of a block after the committed state: row r is for the token at r.

        top_p: mass of the block's expert coreset, None for the checkpoint's own, 1 for none. Writes nothing that a
        later pass reads.
        """
        return self.head(self._run(tokens, state, block=True, top_p=top_p))

    def verify(self, tokens: Tensor, state: State) -> tuple[Tensor, Landing]:
        """Next-token logits [n, vocab], float32, of every row of a causal pass that commits nothing yet.

        The landing moves `state` to behind any of the rows; do that before the next pass over it.
        """
        rope = self._rope(tokens, state)
        x = self.model.embed_tokens(tokens)
        rows: list[DeltaRows | None] = []
        for layer, layer_state in zip(self.model.layers, state.layers, strict=True):
            assert isinstance(layer, Layer)
            x, done = layer.ahead(x, rope, layer_state)
            rows.append(done)
        return self.head(x), Landing(state, rows)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits in float32 of rows [..., hidden] before the final norm."""
        return self.lm_head(self.model.norm(hidden)).float()

    def _run(self, tokens: Tensor, state: State, *, block: bool, top_p: float | None = None) -> Tensor:
        rope = self._rope(tokens, state)
        x = self.model.embed_tokens(tokens)
        for layer, layer_state in zip(self.model.layers, state.layers, strict=True):
            x = layer(x, rope, layer_state, block=block, top_p=top_p)
        return x

    def _rope(self, tokens: Tensor, state: State) -> tuple[Tensor, Tensor]:
        positions = torch.arange(state.length, state.length + tokens.shape[0], device=tokens.device)
        return rope_table(positions, self.config.rotary_dim, self.config.rope_theta)
