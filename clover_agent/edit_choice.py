"""Which of a small model's replies are worth running: calls that can run, and edits that make a new, readable program.

An edit that changes nothing, does not apply, breaks the syntax, or comes to a program that was tried before can't make
the tests pass; the backend is asked for its next most probable reply instead.
"""

from __future__ import annotations

import ast

from clover_agent.messages import Message
from sandboxes.protocol import Sandbox
from tools import editing
from tools.files import StrReplace
from tools.paths import read
from tools.protocol import ToolError
from tools.registry import Registry
from tools.textfile import TextFile


class EditChoice:
    """Accepts each program once. exhausted: the last reply asked about was not accepted."""

    def __init__(self, registry: Registry, sandbox: Sandbox) -> None:
        self._registry, self._sandbox = registry, sandbox
        self._seen: set[tuple[str, str]] = set()
        self.exhausted = False

    def __call__(self, message: Message) -> bool:
        """Whether a reply is worth running in the workspace as it is now."""
        accepted = self._accepts(message)
        self.exhausted = not accepted
        return accepted

    def _accepts(self, message: Message) -> bool:
        if len(message.tool_calls) != 1:
            return False
        call = message.tool_calls[0]
        if call.arguments is None or self._registry.check(call.name, call.arguments):
            return False
        if call.name != StrReplace.name:
            return True
        arguments = call.arguments
        try:
            path, data = read(arguments["path"], self._sandbox)
            file = TextFile.parse(path, data)
            changed = editing.replace(path, file, arguments["old_str"], arguments["new_str"], arguments.get("line"))
        except ToolError:
            return False
        before, after = program(path, data), program(path, changed)
        if after is None or after == before or (path, after) in self._seen:
            return False
        self._seen.add((path, after))
        return True


def program(path: str, data: bytes) -> str | None:
    """What a file says, apart from layout; None for Python that can't be read."""
    if not path.endswith(".py"):
        return data.decode("latin-1")
    try:
        return ast.dump(ast.parse(data))
    except (SyntaxError, ValueError, RecursionError):
        return None
