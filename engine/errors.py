"""Errors of the engine: each message is one line that says what is wrong and what to do."""

from __future__ import annotations


class EngineError(Exception):
    """Base of the engine's own errors."""


class CheckpointError(EngineError):
    """A checkpoint folder that can't be loaded: missing file, missing or misshapen tensor, missing mask id."""


class ContextLimitError(EngineError):
    """Prompt, reply and the last block do not fit the model's context."""


class TokenizerError(EngineError):
    """A tokenizer or chat template that can't be read, or messages the template refuses."""
