"""Tools on files: view, create, str_replace, insert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandboxes.protocol import Sandbox, WorkspacePathError
from tools import editing
from tools.paths import read, relative
from tools.protocol import Observation, ToolError
from tools.render import clip, render_edit, render_view
from tools.textfile import TextFile, visible

MAX_VIEW_LINES = 400
MAX_LISTED = 200
_PATH = {"type": "string", "description": "path of the file, relative to the repository"}


def _schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class View:
    """Numbered lines of a file, or the files of a folder."""

    name = "view"
    description = (
        f"Show a file's lines with their numbers, at most {MAX_VIEW_LINES} at a time, or list a folder's files."
    )
    parameters: Mapping[str, Any] = _schema(
        {
            "path": {"type": "string", "description": "path of a file or folder, relative to the repository"},
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 2,
                "maxItems": 2,
                "description": "first and last line to show, counted from 1; -1 as last: to the end",
            },
        },
        ["path"],
    )

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        try:
            path, data = read(arguments["path"], sandbox)
        except ToolError:
            name = relative(arguments["path"], sandbox.workspace)
            files = sandbox.list_files() if name == "." else _below(name, sandbox)
            if not files:
                raise
            rest = f"\n... and {len(files) - MAX_LISTED} more" if len(files) > MAX_LISTED else ""
            return Observation("\n".join(clip(visible(file)) for file in files[:MAX_LISTED]) + rest)
        lines = TextFile.parse(path, data).lines
        if not lines:
            return Observation(f"{path} is empty.")
        first, last = arguments.get("view_range") or (1, -1)
        last = len(lines) if last == -1 else min(last, len(lines))
        if first < 1 or first > len(lines) or last < first:
            raise ToolError(f"view_range must lie in lines 1 to {len(lines)} of {path}, the first before the last")
        shown = min(last, first + MAX_VIEW_LINES - 1)
        text = render_view([visible(line) for line in lines[first - 1 : shown]], first)
        return Observation(text + (f"\n... {last - shown} more lines, to {last}" if shown < last else ""))


def _below(name: str, sandbox: Sandbox) -> list[str]:
    return [file for file in sandbox.list_files() if file.startswith(name.rstrip("/") + "/")]


class Create:
    """A new file."""

    name = "create"
    description = "Create a new file with the given content. Existing files are changed with str_replace and insert."
    parameters: Mapping[str, Any] = _schema(
        {"path": _PATH, "content": {"type": "string", "description": "the whole file"}}, ["path", "content"]
    )

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        path, content = relative(arguments["path"], sandbox.workspace), str(arguments["content"])
        try:
            sandbox.read_bytes(path)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            raise ToolError(f"{path} is a folder") from None
        except WorkspacePathError as fault:
            raise ToolError(str(fault)) from None
        else:
            raise ToolError(f"{path} exists already: change it with str_replace or insert")
        _write(path, content.encode("utf-8", "surrogateescape"), sandbox)
        count = len(content.splitlines())
        return Observation(f"Created {path} ({count} line{'' if count == 1 else 's'}).", changed=(path,))


class StrReplace:
    """One piece of a file's text replaced by another."""

    name = "str_replace"
    description = (
        "Replace text in a file. old_str must match exactly, with its indentation; where it occurs more than once, "
        "say with `line` which one is meant."
    )
    parameters: Mapping[str, Any] = _schema(
        {
            "path": _PATH,
            "line": {"type": "integer", "minimum": 1, "description": "number of the line where old_str starts"},
            "old_str": {"type": "string", "description": "the text to replace"},
            "new_str": {"type": "string", "description": "what takes its place"},
        },
        ["path", "old_str", "new_str"],
    )

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        path, data = read(arguments["path"], sandbox)
        file = TextFile.parse(path, data)
        changed = editing.replace(path, file, arguments["old_str"], arguments["new_str"], arguments.get("line"))
        return _edited(path, file, changed, sandbox)


class Insert:
    """New lines in a file."""

    name = "insert"
    description = "Insert text as lines of its own after the given line of a file; line 0 is the top."
    parameters: Mapping[str, Any] = _schema(
        {
            "path": _PATH,
            "line": {"type": "integer", "minimum": 0, "description": "number of the line above the new text"},
            "text": {"type": "string", "description": "the lines to insert"},
        },
        ["path", "line", "text"],
    )

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        path, data = read(arguments["path"], sandbox)
        file = TextFile.parse(path, data)
        return _edited(path, file, editing.insert(path, file, arguments["line"], arguments["text"]), sandbox)


def _edited(path: str, before: TextFile, changed: bytes, sandbox: Sandbox) -> Observation:
    _write(path, changed, sandbox)
    after = TextFile.parse(path, changed)
    return Observation(render_edit(path, before.shown(), after.shown()), changed=(path,))


def _write(path: str, data: bytes, sandbox: Sandbox) -> None:
    try:
        sandbox.write_bytes(path, data)
    except WorkspacePathError as fault:
        raise ToolError(str(fault)) from None
    except (IsADirectoryError, NotADirectoryError, PermissionError) as fault:
        raise ToolError(f"{path} can't be written: {fault.strerror or fault}") from None
