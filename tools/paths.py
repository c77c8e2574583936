"""Workspace paths as the model writes them."""

from __future__ import annotations

import difflib
import posixpath

from sandboxes.protocol import Sandbox, WorkspacePathError
from tools.protocol import ToolError


def relative(path: str, workspace: str) -> str:
    """`path` relative to the workspace, `.` for the workspace itself.

    Raises ToolError for a path outside, one with a NUL or line end in it, and an empty one. Symlinks are the
    sandbox's business: it resolves them and refuses what leads outside.
    """
    if not path.strip():
        raise ToolError("path is empty: name a file of the repository")
    if any(character in path for character in "\0\n\r"):
        raise ToolError("path has a line end or NUL in it: name one file of the repository")
    normal = posixpath.normpath(path)
    if normal == workspace or normal.startswith(workspace.rstrip("/") + "/"):
        normal = posixpath.relpath(normal, workspace)
    if normal.startswith("/") or normal == ".." or normal.startswith("../") or normal.startswith("~"):
        raise ToolError(f"{path} is outside the repository: paths are relative to it, as in src/module.py")
    return normal


def read(path: str, sandbox: Sandbox) -> tuple[str, bytes]:
    """The normalised path and the content of a file. Raises ToolError that says what to do."""
    name = relative(path, sandbox.workspace)
    try:
        return name, sandbox.read_bytes(name)
    except FileNotFoundError:
        raise ToolError(f"{name} does not exist{_hint(name, sandbox)}") from None
    except IsADirectoryError:
        raise ToolError(f"{name} is a folder: name a file in it") from None
    except WorkspacePathError as fault:
        large = "larger than" in str(fault)
        hint = f": read a part of it in the terminal, as in sed -n '1,200p' {name}" if large else ""
        raise ToolError(f"{fault}{hint}") from None


def _hint(name: str, sandbox: Sandbox) -> str:
    """Names that come near: the same file name elsewhere, else a similar one."""
    files = sandbox.list_files()
    base = posixpath.basename(name)
    same = [file for file in files if posixpath.basename(file) == base]
    near = same or difflib.get_close_matches(name, files, 3, 0.6)
    return f": did you mean {', '.join(near[:3])}?" if near else ""
