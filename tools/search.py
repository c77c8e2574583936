"""The search tool: lines of the repository's files that match a pattern."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sandboxes.protocol import Sandbox
from tools.paths import relative
from tools.protocol import Observation, ToolError
from tools.render import clip

MAX_MATCHES = 50
_LIMIT = 20.0


class Search:
    """grep, with bounded output."""

    name = "search"
    description = "Find the lines that match a regular expression (POSIX extended) in the repository's text files."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "description": "regular expression"},
            "path": {"type": "string", "description": "file or folder to search (default: the whole repository)"},
            "glob": {"type": "string", "description": "only files whose name matches, as in *.py"},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    }

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        path = relative(arguments.get("path") or ".", sandbox.workspace)
        pattern = arguments["pattern"]
        if "\n" in pattern or "\0" in pattern:
            raise ToolError("pattern must be one line")
        words = ["grep", "-rnIE", "--exclude-dir=.git", "--exclude-dir=__pycache__"]
        if arguments.get("glob"):
            words.append(f"--include={arguments['glob']}")
        words += ["-e", pattern, "--", path]
        # One line more than is shown tells that there are more; a very long line is cut before it crosses over.
        command = f"{shlex.join(words)} | cut -c1-1000 | head -n {MAX_MATCHES + 1}"
        folder = shlex.quote(sandbox.workspace)
        result = sandbox.run(f"( set -o pipefail; cd {folder} && {command} )", timeout=_LIMIT)
        if result.timed_out:
            raise ToolError(f"the search took more than {_LIMIT:g} seconds: name a path or a glob")
        lines = [line.removeprefix("./") for line in result.output.splitlines()]
        if result.exit_code not in (0, 1, 141) and lines and lines[0].startswith("grep:"):
            raise ToolError(clip(lines[0]))
        if not lines:
            return Observation(f"No line matches {clip(pattern)!r}.")
        more = f"\n... only the first {MAX_MATCHES} matches are shown" if len(lines) > MAX_MATCHES else ""
        return Observation("\n".join(clip(line, 200) for line in lines[:MAX_MATCHES]) + more)
