"""Which of a small model's replies are worth running: calls that can run, and edits that make a new, readable program.

An edit that changes nothing, does not apply, breaks the syntax, or comes to a program that was tried before can't make
the tests pass; the backend is asked for its next most probable reply instead. While it searches, the guide holds it to
edits of one line of the code it was shown, or insertions below one, where a failing test ran it: which line, and what
shall stand there, are the model's to say. What the tests' coverage says of the lines weighs in its ranking.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clover_agent.messages import Message
from sandboxes.protocol import Sandbox
from tools import editing
from tools.files import StrReplace, View
from tools.paths import read
from tools.protocol import ToolError
from tools.registry import Registry
from tools.textfile import TextFile

Weights = Callable[[str], Mapping[int, float]]

EVIDENCE = 0.7  # how far coverage is trusted beside the model: exponent of a line's weight
LEAST = 0.01  # of the heaviest line's weight: no line that failing tests ran counts less


class EditChoice:
    """Accepts each program once."""

    def __init__(self, registry: Registry, sandbox: Sandbox, weights: Weights = lambda path: {}) -> None:
        """weights: for a file's path, of the lines that failing tests ran; empty where that is not known."""
        self._registry, self._sandbox, self._weights = registry, sandbox, weights
        self._seen: set[tuple[str, str]] = set()
        self._path = ""
        self._shown: dict[int, str] = {}
        self._suspicion: dict[int, float] = {}
        self._anchors: frozenset[int] = frozenset()

    def look(self, messages: Sequence[Message]) -> None:
        """Note what code a conversation shows: that of its last `view`."""
        for message in messages:
            for call in message.tool_calls:
                if call.name == View.name and call.arguments is not None:
                    self._look(call.arguments)

    def accepts(self, message: Message) -> bool:
        """Whether a reply is worth running in the workspace as it is now."""
        if len(message.tool_calls) != 1:
            return False
        call = message.tool_calls[0]
        if call.arguments is None or self._registry.check(call.name, call.arguments):
            return False
        if call.name == View.name:
            self._look(call.arguments)
        return call.name != StrReplace.name or self._is_new(call.arguments)

    def guide(self, text: str) -> str | None:
        """What must follow the beginning `text` of a reply; "" where the model is free, None where nothing can."""
        if not self._suspicion:  # no code was shown yet
            return ""
        head = f"<tool_call>\n<function={StrReplace.name}>\n<parameter=path>\n{self._path}\n</parameter>\n"
        head += "<parameter=line>\n"
        if len(text) < len(head):
            return head[len(text) :] if head.startswith(text) else None
        if not text.startswith(head):
            return None
        number, end, _ = text[len(head) :].partition("\n")
        if not end:
            return "" if any(str(line).startswith(number) for line in self._suspicion) else None
        if not number.isdigit() or int(number) not in self._suspicion:
            return None
        line = self._shown[int(number)]
        body = f"{number}\n</parameter>\n<parameter=old_str>\n{line}\n</parameter>\n<parameter=new_str>\n"
        if int(number) in self._anchors:
            body += f"{line}\n"
        given = text[len(head) :]
        if given.startswith(body):
            return ""
        return body[len(given) :] if body.startswith(given) else None

    def prior(self, text: str) -> float:
        """What coverage says of the line that the beginning `text` of a reply has settled on."""
        number, end, _ = text.partition("\n<parameter=line>\n")[2].partition("\n")
        weight = self._suspicion.get(int(number), LEAST) if end and number.isdigit() else 1.0
        return EVIDENCE * math.log(weight)

    def _look(self, arguments: Any) -> None:
        try:
            self._path, data = read(arguments["path"], self._sandbox)
            lines = TextFile.parse(self._path, data).lines
        except ToolError:
            return
        first, last = arguments.get("view_range") or (1, len(lines))
        self._shown = dict(enumerate(lines[first - 1 : last], first))
        weights, self._anchors = suspicion(data, self._weights(self._path))
        most = max((weights.get(line, 0.0) for line in self._shown), default=0.0)
        self._suspicion = {
            line: max(weights[line] / most, LEAST) if most else 1.0
            for line, text in self._shown.items()
            if text.strip() and (not most or weights.get(line, 0.0) > 0)
        }

    def _is_new(self, arguments: Any) -> bool:
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


def suspicion(data: bytes, ran: Mapping[int, float]) -> tuple[dict[int, float], frozenset[int]]:
    """Weights of the lines of a Python file that may be edited, and those of them that may only be built upon.

    ran: weights of the lines that failing tests ran. A statement weighs what its heaviest line does; `else` and
    decorators what the statement below them does. Where a statement did not run but the one below it did, what is
    missing may belong between the two; a comment may have lost what stood below it. Empty without Python or weights.
    """
    try:
        tree = ast.parse(data) if ran else None
    except (SyntaxError, ValueError, RecursionError):
        tree = None
    if tree is None:
        return {}, frozenset()
    lines = data.splitlines()
    comments = {number for number, line in enumerate(lines, 1) if line.strip().startswith(b"#")}
    statements: dict[int, float] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            span = [line for line in range(node.lineno, max(node.lineno, last) + 1) if line not in comments]
            weight = max((ran.get(line, 0.0) for line in span), default=0.0)
            statements |= {line: max(weight, statements.get(line, 0.0)) for line in span}
    weights: dict[int, float] = {}
    anchors: set[int] = set()
    below = 0.0  # weight of the statement below
    for line in range(len(lines), 0, -1):
        weight = statements.get(line)
        if weight or below:
            weights[line] = weight or below
        if line in comments or weight == 0.0:
            anchors.add(line)
        if weight is not None:
            below = weight
    return weights, frozenset(anchors)
