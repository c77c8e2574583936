"""Which of a small model's replies are worth running: calls that can run, and edits that make a new, readable program.

An edit that changes nothing, does not apply, breaks the syntax, or comes to a program that was tried before can't make
the tests pass; the backend is asked for its next most probable reply instead. While it searches, the guide holds it to
edits of one line of the code it was shown: which line, and what shall stand there, are the model's to say.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from clover_agent.messages import Message
from sandboxes.protocol import Sandbox
from tools import editing
from tools.files import StrReplace, View
from tools.paths import read
from tools.protocol import ToolError
from tools.registry import Registry
from tools.textfile import TextFile


class EditChoice:
    """Accepts each program once. exhausted: the last reply asked about was not accepted."""

    def __init__(self, registry: Registry, sandbox: Sandbox) -> None:
        self._registry, self._sandbox = registry, sandbox
        self._seen: set[tuple[str, str]] = set()
        self._path = ""
        self._shown: dict[int, str] = {}
        self.exhausted = False

    def look(self, messages: Sequence[Message]) -> None:
        """Note what code a conversation shows: that of its last `view`."""
        for message in messages:
            for call in message.tool_calls:
                if call.name == View.name and call.arguments is not None:
                    self._look(call.arguments)

    def accepts(self, message: Message) -> bool:
        """Whether a reply is worth running in the workspace as it is now."""
        accepted = self._accepts(message)
        self.exhausted = not accepted
        return accepted

    def guide(self, text: str) -> str | None:
        """What must follow the beginning `text` of a reply; "" where the model is free, None where nothing can."""
        head = f"<tool_call>\n<function={StrReplace.name}>\n<parameter=path>\n{self._path}\n</parameter>\n"
        head += "<parameter=line>\n"
        if len(text) < len(head):
            return head[len(text) :] if head.startswith(text) else None
        if not text.startswith(head):
            return None
        number, end, _ = text[len(head) :].partition("\n")
        if not end:
            return "" if any(str(line).startswith(number) for line in self._shown) else None
        if not number.isdigit() or not self._shown.get(int(number), "").strip():
            return None
        line = self._shown[int(number)]
        body = f"{number}\n</parameter>\n<parameter=old_str>\n{line}\n</parameter>\n<parameter=new_str>\n"
        given = text[len(head) :]
        if given.startswith(body):
            return ""
        return body[len(given) :] if body.startswith(given) else None

    def _look(self, arguments: Any) -> None:
        try:
            self._path, data = read(arguments["path"], self._sandbox)
            lines = TextFile.parse(self._path, data).lines
        except ToolError:
            return
        first, last = arguments.get("view_range") or (1, len(lines))
        self._shown = dict(enumerate(lines[first - 1 : last], first))

    def _accepts(self, message: Message) -> bool:
        if len(message.tool_calls) != 1:
            return False
        call = message.tool_calls[0]
        if call.arguments is None or self._registry.check(call.name, call.arguments):
            return False
        if call.name == View.name:
            self._look(call.arguments)
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
