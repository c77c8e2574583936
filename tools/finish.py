"""The finish tool: the model's own word, recorded and never believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandboxes.protocol import Sandbox
from tools.protocol import Observation


class Finish:
    """Ends the episode."""

    name = "finish"
    description = "End the work and say in a sentence what was done. The tests decide whether it is fixed."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "outcome": {"type": "string", "enum": ["fixed", "not_fixed"]},
            "summary": {"type": "string", "description": "one sentence"},
        },
        "required": ["outcome", "summary"],
        "additionalProperties": False,
    }

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        return Observation("Finished.", finished=True, data=dict(arguments))
