"""Tools on files: view, create, str_replace, insert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandboxes.protocol import Sandbox, WorkspacePathError
from tools import editing
from tools.binary import binary_kind, describe
from tools.memory import Edit, FileMemory
from tools.paths import read, relative
from tools.protocol import Observation, ToolError
from tools.render import clip, render_edit, render_view
from tools.textfile import TextFile, visible

MAX_VIEW_LINES = 400
MAX_LISTED = 200
_PATH = {"type": "string", "description": "path of the file, relative to the repository"}


def _schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class FilesTool:
    """What the tools on files share. memory: of what was shown and written, one for all of them."""

    def __init__(self, memory: FileMemory | None = None) -> None:
        self.memory = memory or FileMemory()

    def write(self, path: str, data: bytes, sandbox: Sandbox) -> None:
        """Write a file. Raises ToolError for what is the model's to correct."""
        try:
            sandbox.write_bytes(path, data)
        except WorkspacePathError as fault:
            raise ToolError(str(fault)) from None
        except (IsADirectoryError, NotADirectoryError, PermissionError) as fault:
            raise ToolError(f"{path} can't be written: {fault.strerror or fault}") from None

    def edited(self, path: str, before: bytes, after: bytes, sandbox: Sandbox) -> Observation:
        """Write a changed file and show the change, with a word where it was not as the model knew it."""
        note = f"\n[{path} had changed since it was last shown]" if self.memory.is_news(path, before) else ""
        self.write(path, after, sandbox)
        self.memory.wrote(Edit(path, before, after))
        texts = [visible(data.decode("utf-8", "surrogateescape")) for data in (before, after)]
        return Observation(render_edit(path, *texts) + note, changed=(path,))


class View(FilesTool):
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
        self.memory.saw(path, data)
        if kind := binary_kind(data):
            return Observation(describe(path, data, kind))
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


class Create(FilesTool):
    """A new file."""

    name = "create"
    description = "Create a new file with the given content. Existing files are changed with str_replace and insert."
    parameters: Mapping[str, Any] = _schema(
        {
            "path": _PATH,
            "content": {"type": "string", "description": "the whole file"},
            "overwrite": {"type": "boolean", "description": "replace a file that is there already (default: refuse)"},
        },
        ["path", "content"],
    )

    def run(self, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        path, content = relative(arguments["path"], sandbox.workspace), str(arguments["content"])
        data = content.encode("utf-8", "surrogateescape")
        try:
            there = sandbox.read_bytes(path)
        except FileNotFoundError:
            there = None
        except IsADirectoryError:
            raise ToolError(f"{path} is a folder") from None
        except WorkspacePathError as fault:
            raise ToolError(str(fault)) from None
        if there is not None:
            if not arguments.get("overwrite"):
                raise ToolError(f"{path} exists already: change it with str_replace or insert")
            if there == data:
                raise ToolError(f"{path} has this content already: nothing would change")
            return self.edited(path, there, data, sandbox)
        self.write(path, data, sandbox)
        self.memory.wrote(Edit(path, None, data))
        count = len(content.splitlines())
        return Observation(f"Created {path} ({count} line{'' if count == 1 else 's'}).", changed=(path,))


class StrReplace(FilesTool):
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
        return self.edited(path, data, changed, sandbox)


class Insert(FilesTool):
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
        if self.memory.is_news(path, data):
            raise ToolError(f"{path} has changed since it was last shown, its lines may have moved: view it again")
        changed = editing.insert(path, file, arguments["line"], arguments["text"])
        return self.edited(path, data, changed, sandbox)
