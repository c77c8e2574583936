"""The find_files tool: files of the repository by name."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Mapping
from typing import Any

from sandboxes.protocol import Sandbox, WorkspacePathError
from tools.paths import relative
from tools.protocol import Observation, ToolError
from tools.render import clip
from tools.textfile import visible

MAX_FOUND = 200


class FindFiles:
    """Names as they are on disk; links and git's own files are left out."""

    name = "find_files"
    description = "List the repository's files whose name matches, as in *_test.py or src/*.toml."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string",
                "minLength": 1,
                "description": "with * and ?; without a slash it is the name alone, with one the whole path",
            },
            "path": {"type": "string", "description": "only below this folder (default: the whole repository)"},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    }

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        path, pattern = relative(arguments.get("path") or ".", sandbox.workspace), arguments["pattern"]
        try:
            files = sandbox.list_files(path)
        except FileNotFoundError:
            raise ToolError(f"{path} does not exist") from None
        except WorkspacePathError as fault:
            raise ToolError(str(fault)) from None
        whole = "/" in pattern
        found = [file for file in files if fnmatch.fnmatchcase(file if whole else posixpath.basename(file), pattern)]
        if not found:
            return Observation(f"No file matches {clip(pattern)!r}.")
        more = f"\n... and {len(found) - MAX_FOUND} more" if len(found) > MAX_FOUND else ""
        return Observation("\n".join(clip(visible(file)) for file in found[:MAX_FOUND]) + more)
