"""The seam between the agent loop and what the model may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sandboxes.protocol import Sandbox


class ToolError(Exception):
    """The model's fault (bad arguments, no such file, ambiguous edit): told to the model, who may correct it."""


@dataclass(frozen=True)
class Observation:
    """What the model is shown after a call.

    text: bounded and clean. is_error: the call did nothing. finished: the call ends the episode.
    changed: workspace-relative paths that the call wrote. data: structured extras for events and verdicts.
    """

    text: str
    is_error: bool = False
    finished: bool = False
    changed: tuple[str, ...] = ()
    data: Mapping[str, Any] | None = None


class Tool(Protocol):
    """One thing the model may do. `parameters` is a JSON schema (type object, additionalProperties false)."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        """Do it. `arguments` are already valid. Raises ToolError; lets SandboxError through."""
        ...
