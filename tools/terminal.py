"""The terminal tool: a command in the sandbox's shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandboxes.protocol import Sandbox
from tools.protocol import Observation, ToolError

DEFAULT_TIMEOUT = 60
MAX_TIMEOUT = 600


class Terminal:
    """The shell keeps its folder and variables from call to call; it has no input and no network."""

    name = "terminal"
    description = (
        "Run a command in bash, in the repository. Input is closed; "
        f"after `timeout` seconds (default {DEFAULT_TIMEOUT}) it is stopped."
    )
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "what to run"},
            "timeout": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT, "description": "limit in seconds"},
        },
        "required": ["command"],
        "additionalProperties": False,
    }

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        if "\0" in arguments["command"]:
            raise ToolError("command has a NUL in it")
        limit = arguments.get("timeout", DEFAULT_TIMEOUT)
        result = sandbox.run(arguments["command"], timeout=float(limit))
        notes = []
        if result.timed_out:
            notes.append(f"[stopped after {limit} seconds]")
        elif result.exit_code != 0:
            notes.append(f"[exit status {result.exit_code}]")
        if result.survivors:
            notes.append(f"[still running in the background: {', '.join(map(str, result.survivors))}]")
        if result.log:
            notes.append(f"[the output's beginning is kept in {result.log}]")
        text = "\n".join([part for part in (result.output.rstrip("\n"), *notes) if part])
        data = {"exit_code": result.exit_code, "timed_out": result.timed_out, "seconds": result.seconds}
        return Observation(text or "[no output]", data=data)
