"""The undo tool: the last edit of a file taken back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sandboxes.protocol import Sandbox, WorkspacePathError
from tools.files import FilesTool
from tools.paths import relative
from tools.protocol import Observation, ToolError
from tools.render import render_edit
from tools.textfile import visible


class Undo(FilesTool):
    """Brings back the very bytes of before; what others changed since stays."""

    name = "undo"
    description = "Take back the last change that create, str_replace or insert made to a file."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "path of the file, relative to the repository"}},
        "required": ["path"],
        "additionalProperties": False,
    }

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        path = relative(arguments["path"], sandbox.workspace)
        edit = self.memory.last(path)
        if edit is None:
            raise ToolError(f"there is no change of {path} to take back")
        try:
            now = sandbox.read_bytes(path)
        except (FileNotFoundError, IsADirectoryError, WorkspacePathError):
            now = None
        if now != edit.after:
            raise ToolError(f"{path} has changed since its last edit: view it, and change it with str_replace")
        if edit.before is None:
            done = sandbox.run(
                f"( cd {shlex.quote(sandbox.workspace)} && command rm -- {shlex.quote(path)} )", timeout=20
            )
            if done.exit_code != 0:
                raise ToolError(f"{path} can't be removed: {done.output.strip()[:200]}")
            self.memory.took_back(edit)
            return Observation(f"Removed {path}, which did not exist before.", changed=(path,))
        self.write(path, edit.before, sandbox)
        self.memory.took_back(edit)
        self.memory.saw(path, edit.before)
        texts = [visible(data.decode("utf-8", "surrogateescape")) for data in (edit.after, edit.before)]
        return Observation(render_edit(path, *texts), changed=(path,))
