"""Who decides whether a call may run: nobody need be asked, the user is asked, or it is refused.

Inside a sandbox everything may run, for it can be thrown away. Outside nothing runs unasked but commands that are
known to read only, and harm that can't be taken back is refused.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tools.danger import dangers
from tools.shellparse import Script, Simple, parse


class Decision(StrEnum):
    """From the most lenient to the strictest."""

    AUTO = "auto"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True)
class Rule:
    """decision: for calls of the tools that `tool` matches (* and ?), where `command` is empty.

    Else for commands within a `terminal` call whose words, quotes taken off, match `command`, as in `git push *`; a
    pattern that ends in ` *` matches the command without arguments too.
    """

    decision: Decision
    tool: str = "*"
    command: str = ""

    @classmethod
    def parse(cls, text: str) -> Rule:
        """From `DECISION TOOL [COMMAND...]`, as in `deny terminal git push *`. Raises ValueError."""
        words = text.split(maxsplit=2)
        try:
            return cls(Decision(words[0]), words[1], words[2] if len(words) > 2 else "")
        except (ValueError, IndexError):
            raise ValueError(f"a rule is written `auto|ask|deny TOOL [COMMAND]`, not {text!r}") from None

    def fits(self, command: Simple) -> bool:
        """Whether a simple command matches."""
        text = str(command)
        return fnmatch.fnmatchcase(text, self.command) or fnmatch.fnmatchcase(f"{text} ", self.command)


@dataclass(frozen=True)
class Request:
    """What the user is asked about. reasons: why it is not simply done."""

    tool: str
    arguments: Mapping[str, Any]
    reasons: tuple[str, ...]


Ask = Callable[[Request], bool]


def refuse(request: Request) -> bool:
    """The answer where nobody can be asked."""
    return False


@dataclass(frozen=True)
class Policy:
    """Later rules win over earlier ones; of several commands in a call the strictest decision holds.

    danger: the least decision for a command that may do harm; a rule that names it word for word may allow it, one
    with * or ? may not. unknown: the least for a script whose meaning its text does not tell, and for a rule with * on
    words that leave the repository or expand.
    """

    default: Decision
    rules: tuple[Rule, ...] = ()
    danger: Decision = Decision.AUTO
    unknown: Decision = Decision.AUTO

    def judge(self, tool: str, arguments: Mapping[str, Any]) -> tuple[Decision, tuple[str, ...]]:
        """The decision on a call, and why it is not `auto`."""
        base = _last(rule.decision for rule in self.rules if not rule.command and fnmatch.fnmatchcase(tool, rule.tool))
        command = arguments.get("command")
        if tool != "terminal" or not isinstance(command, str):
            decision = base or self.default
            return decision, () if decision is Decision.AUTO else (f"the policy on {tool}",)
        script = parse(command)
        verdicts = [self._on(simple, base or self.default) for simple in script.commands]
        if script.forks:
            verdicts.append((self.danger, dangers(Script((), forks=True))))
        if script.unknown and self.unknown is not Decision.AUTO:
            verdicts.append((self.unknown, tuple(f"can't tell from its text: {what}" for what in script.unknown)))
        if script.functions and self.unknown is not Decision.AUTO:
            verdicts.append((self.unknown, ("it gives commands new meanings",)))
        if not verdicts:
            verdicts = [(base or self.default, (f"the policy on {tool}",))]
        strictest = max((decision for decision, _ in verdicts), key=list(Decision).index)
        reasons = dict.fromkeys(why for decision, whys in verdicts if decision is strictest for why in whys)
        return strictest, () if strictest is Decision.AUTO else tuple(reasons)

    def _on(self, command: Simple, base: Decision) -> tuple[Decision, tuple[str, ...]]:
        named = _last(
            rule.decision
            for rule in self.rules
            if rule.command and fnmatch.fnmatchcase("terminal", rule.tool) and rule.fits(command)
        )
        harm = dangers(Script((command,)))
        reasons = harm or (f"the policy on {str(command)[:80]!r}",)
        least = self.danger if harm else Decision.AUTO
        if named is None:
            return _stricter(base, least), reasons
        if named is not Decision.AUTO:
            return _stricter(named, least), reasons
        if command.writes:  # a rule on words says nothing of a redirection
            return _stricter(base, least), harm or ("it writes a file",)
        if any(rule.command == str(command) for rule in self.rules):
            return named, reasons
        if any(_leaves(word) for word in command.words[1:]):
            return _stricter(self.unknown, least), harm or ("it may read outside the repository",)
        return least, reasons


def _stricter(one: Decision, other: Decision) -> Decision:
    return max(one, other, key=list(Decision).index)


def _leaves(word: str) -> bool:
    """Whether a word may name something outside the repository."""
    return word.startswith(("/", "~")) or ".." in word or "=/" in word or "$" in word or "`" in word


def _last(decisions: Any) -> Decision | None:
    return next(reversed(list(decisions)), None)


_READING = (
    *(
        "ls *",
        "cat *",
        "head *",
        "tail *",
        "wc *",
        "pwd",
        "echo *",
        "true",
        "false",
        "stat *",
        "file *",
        "du *",
        "df *",
    ),
    *("grep *", "cut *", "tr *", "nl *", "basename *", "dirname *", "realpath *", "cd ?*", "diff *", "cmp *"),
    *("git status *", "git log *", "git show *", "git diff *", "git blame *", "git ls-files *", "git rev-parse *"),
)
_WRITING_OPTIONS = ("git * --output*", "git * --ext-diff*", "git -* *", "cd -*")

IN_SANDBOX = Policy(Decision.AUTO)
ON_HOST = Policy(
    Decision.ASK,
    (
        *(Rule(Decision.AUTO, tool) for tool in ("view", "search", "find_files", "finish")),
        *(Rule(Decision.AUTO, "terminal", command) for command in _READING),
        *(Rule(Decision.ASK, "terminal", command) for command in _WRITING_OPTIONS),
    ),
    danger=Decision.DENY,
    unknown=Decision.ASK,
)


def approve(policy: Policy, ask: Ask, tool: str, arguments: Mapping[str, Any]) -> str:
    """Why a call may not run; "" where it may."""
    decision, reasons = policy.judge(tool, arguments)
    why = "; ".join(reasons)
    if decision is Decision.DENY:
        return f"This call is not allowed: {why}."
    if decision is Decision.ASK and not ask(Request(tool, arguments, reasons)):
        return f"This call was not approved ({why}): find another way, or go on without it."
    return ""
