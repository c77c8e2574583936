"""All tools under their names: arguments are checked against the schema before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from sandboxes.protocol import Sandbox
from tools.approvals import Ask, Policy, approve, refuse
from tools.files import Create, Insert, StrReplace, View
from tools.finding import FindFiles
from tools.finish import Finish
from tools.memory import FileMemory
from tools.protocol import Observation, Tool, ToolError
from tools.render import clip
from tools.search import Search
from tools.terminal import Terminal
from tools.testing import DEFAULT_TIMEOUT, RunTests
from tools.undo import Undo


def standard_tools(test_command: str, test_timeout: float = DEFAULT_TIMEOUT) -> tuple[Tool, ...]:
    """What the model may do in a task, in the order it is told of it."""
    tests, memory = RunTests(test_command, test_timeout), FileMemory()
    files = (View(memory), Create(memory), StrReplace(memory), Insert(memory), Undo(memory))
    return (Terminal(), *files, Search(), FindFiles(), tests, Finish())


class Registry:
    """Looks a tool up, checks its arguments, runs it, and turns the model's mistakes into observations."""

    def __init__(self, tools: Sequence[Tool], policy: Policy | None = None, ask: Ask = refuse) -> None:
        """policy: what may run (None: everything, as inside a sandbox). ask: the user, where the policy says so."""
        self.tools = tuple(tools)
        self._policy, self._ask = policy, ask
        self._by_name = {tool.name: tool for tool in tools}

    def check(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What is wrong with a call, in one line; empty where it may run."""
        tool = self._by_name.get(name)
        if tool is None:
            near = difflib.get_close_matches(name, self._by_name, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            return f"There is no tool {clip(name, 60)!r}.{hint} The tools are: {', '.join(self._by_name)}."
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match

        fault = best_match(Draft202012Validator(dict(tool.parameters)).iter_errors(dict(arguments)))
        if fault is None:
            return ""
        where = "".join(f"[{part}]" if isinstance(part, int) else str(part) for part in fault.absolute_path)
        return f"{name}: {where + ': ' if where else ''}{clip(fault.message, 200)}"

    def run(self, name: str, arguments: Mapping[str, Any], sandbox: Sandbox) -> Observation:
        """Do one call. What the model got wrong comes back as an observation; SandboxError passes through."""
        if fault := self.check(name, arguments):
            return Observation(fault, is_error=True)
        if self._policy is not None and (fault := approve(self._policy, self._ask, name, arguments)):
            return Observation(fault, is_error=True)
        try:
            return self._by_name[name].run(arguments, sandbox)
        except ToolError as fault:
            return Observation(str(fault), is_error=True)
