"""The search tool: lines of the repository's files that match a pattern."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sandboxes.protocol import Sandbox, WorkspacePathError
from tools.paths import relative
from tools.protocol import Observation, ToolError
from tools.render import clip

MAX_MATCHES = 50
_LIMIT = 20.0


class Search:
    """ripgrep, with bounded output."""

    name = "search"
    description = "Find the lines that match a regular expression in the repository's text files."
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
        pattern, glob = arguments["pattern"], arguments.get("glob") or ""
        if any(character in pattern + glob for character in "\n\0"):
            raise ToolError("pattern and glob must be one line")
        if path != ".":
            _check(path, sandbox)
        # One line more than is shown tells that there are more; a very long line is cut before it crosses over.
        command = (
            f"if command -v rg >/dev/null; then {_ripgrep(pattern, glob, path)}; else {_grep(pattern, glob, path)}; fi"
            f" | cut -c1-1000 | head -n {MAX_MATCHES + 1}"
        )
        folder = shlex.quote(sandbox.workspace)
        result = sandbox.run(f"( set -o pipefail; cd {folder} && {command} )", timeout=_LIMIT)
        if result.timed_out:
            raise ToolError(f"the search took more than {_LIMIT:g} seconds: name a path or a glob")
        lines = [line.removeprefix("./") for line in result.output.splitlines()]
        if (
            result.exit_code not in (0, 1, 141)
            and lines
            and lines[0].startswith(("grep:", "regex parse error", "error:"))
        ):
            raise ToolError(clip(" ".join(line.strip() for line in lines[:6])))
        lines = [line for line in lines if ": binary file matches" not in line]
        if not lines:
            return Observation(f"No line matches {clip(pattern)!r}.")
        more = f"\n... only the first {MAX_MATCHES} matches are shown" if len(lines) > MAX_MATCHES else ""
        return Observation("\n".join(clip(line, 200) for line in lines[:MAX_MATCHES]) + more)


def _ripgrep(pattern: str, glob: str, path: str) -> str:
    """Everything but git's own files and bytecode, whatever the ignore files say, in the order of the names."""
    words = ["command", "rg", "--no-config", "--no-heading", "--with-filename", "--line-number", "--no-messages"]
    words += ["--color=never", "--hidden", "--no-ignore", "--sort=path", "--max-columns=1000", "--max-columns-preview"]
    words += [f"--glob={name}" for name in (glob, "!.git", "!__pycache__") if name]
    return shlex.join([*words, "-e", pattern, "--", path])


def _grep(pattern: str, glob: str, path: str) -> str:
    """The same for an image without ripgrep."""
    words = ["command", "grep", "-rnIE", "--exclude-dir=.git", "--exclude-dir=__pycache__"]
    words += [f"--include={glob}"] if glob else []
    return shlex.join([*words, "-e", pattern, "--", path])


def _check(path: str, sandbox: Sandbox) -> None:
    """Raises ToolError for a place that is not there, leads outside, or holds no files."""
    try:
        files = sandbox.list_files(path)
    except FileNotFoundError:
        raise ToolError(f"{path} does not exist") from None
    except WorkspacePathError as fault:
        raise ToolError(str(fault)) from None
    if not files:
        raise ToolError(f"{path} holds no files to search")
