"""Agent episodes for training clover-nano: a bug in a real function, and the conversation that repairs it.

Everything is rendered by the product's own code (prompts, tool observations, chat template), so the model is trained
on exactly what it will read. One conversation: the task, `view` of the first suspect, `str_replace`, and in part of
them the edit's diff, `run_tests`, its report, a second try where the first edit was wrong, `finish`.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from clover_agent.nano.corpus import Module, read_corpus
from clover_agent.nano.failures import Target, draw_failure
from clover_agent.prompts import Suspect, compact_task, view_span
from engine.tokenizer import Tokenizer
from engine.training.bugs import Mutation, mutate
from engine.training.packing import Example, Span
from tools.render import TestFailure, TestReport, render_edit, render_report, render_view

TOKENIZER = Path(__file__).parents[2] / "engine" / "checkpoints" / "clover-nano"
MAX_TOKENS = 1400
DRAWS_PER_MODULE = 24
SHORT, RETRY, GIVE_UP = 0.65, 0.12, 0.03  # shares of episodes that end after the edit, retry, give up
NO_SUSPECTS, ISSUE = 0.08, 0.05
PLAIN_DOCSTRINGS = 0.4  # share of modules that keep their docstrings


@dataclass(frozen=True)
class Function:
    """A function of a module: 1-based lines, decorators included."""

    name: str
    start: int
    end: int


@dataclass
class Conversation:
    """Messages in Hugging Face form, and per assistant turn its loss weight and whether it is the scored edit."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    turns: list[tuple[float, bool]] = field(default_factory=list)

    def call(self, name: str, arguments: dict[str, Any], *, weight: float = 1.0, scored: bool = False) -> None:
        """An assistant turn: one tool call and nothing else."""
        function = {"name": name, "arguments": arguments}
        self.messages.append({"role": "assistant", "content": "", "tool_calls": [{"function": function}]})
        self.turns.append((weight, scored))

    def say(self, role: str, content: str) -> None:
        """A user message or a tool's observation."""
        self.messages.append({"role": role, "content": content})


def stream(corpus_path: str, seed: int, worker: int, workers: int) -> Iterator[Example]:
    """Endless training examples; each of `workers` processes draws from its own share of the modules."""
    rng = random.Random(f"{seed}/{worker}")
    modules = read_corpus(corpus_path)[worker::workers]
    encode = _encoder()
    while True:
        rng.shuffle(modules)
        for module in modules:
            for conversation in draw_episodes(module, modules, rng, DRAWS_PER_MODULE):
                example = encode(conversation)
                if example is not None:
                    yield example


def heldout(corpus_path: str, count: int, seed: int = 1) -> list[Example]:
    """`count` short episodes from the held-out packages, one scored edit each, at most a few from a module."""
    rng = random.Random(seed)
    modules = read_corpus(corpus_path, held_out_packages=True)
    encode = _encoder()
    found: list[Example] = []
    while len(found) < count:
        rng.shuffle(modules)
        for module in modules:
            for conversation in draw_episodes(module, modules, rng, 2, short=True):
                example = encode(conversation)
                if example is not None and len(found) < count:
                    found.append(example)
    return found


def score(expected_text: str, actual_text: str) -> dict[str, bool]:
    """Compare two edit turns as text: `located` when the replaced lines agree, `exact` when the replacement does too."""
    expected, actual = _edit_of(expected_text), _edit_of(actual_text)
    located = actual is not None and expected is not None and actual[:2] == expected[:2]
    return {"located": located, "exact": located and actual == expected}


def _edit_of(text: str) -> tuple[str, str, str] | None:
    from engine.toolcalls import parse_reply

    calls = parse_reply(text.replace("<|im_end|>", "").replace("<|endoftext|>", ""), {}, False).calls
    if len(calls) != 1 or calls[0].arguments is None:
        return None
    values = {name: str(value) for name, value in calls[0].arguments.items()}
    return values.get("path", "") + ":" + values.get("line", ""), values.get("old_str", ""), values.get("new_str", "")


def draw_episodes(
    module: Module, others: Sequence[Module], rng: random.Random, count: int, *, short: bool = False
) -> Iterator[Conversation]:
    """Up to `count` conversations about bugs in `module`; `short` ones end after the edit."""
    prepared = _prepare(module, keep_docstrings=rng.random() < PLAIN_DOCSTRINGS)
    if prepared is None:
        return
    source, functions = prepared
    for _ in range(min(count, 4 * len(functions))):
        function = rng.choice(functions)
        mutation = mutate(source, rng, function.start, function.end)
        if mutation is None or (not mutation.before and not mutation.after):
            continue
        path = _repository_path(module, rng)
        conversation = _episode(path, source, function, functions, mutation, others, rng, short=short)
        if conversation is not None:
            yield conversation


def _episode(
    path: str,
    source: str,
    function: Function,
    functions: Sequence[Function],
    mutation: Mutation,
    others: Sequence[Module],
    rng: random.Random,
    *,
    short: bool,
) -> Conversation | None:
    buggy = mutation.source.splitlines()
    end = function.end + len(mutation.after) - len(mutation.before)
    jitter = rng.randint(-12, 12) if end - function.start >= 45 else 0
    first, last = view_span(function.start, end, mutation.line + jitter)
    edit = _repairing_edit(buggy, mutation, function)
    if edit is None or not first <= edit.line <= edit.line + len(edit.old) - 1 <= last:
        return None
    target = Target(path, function.name, function.start, end, mutation.line, tuple(buggy))
    failure = draw_failure(target, rng)
    suspects = [Suspect(path, first, last, function.name), *_other_suspects(path, functions, function, others, rng)]
    view = [first, last]
    if failure is not None and failure.line and rng.random() < NO_SUSPECTS:
        suspects = []
        view = [max(1, failure.line - 20), min(len(buggy), failure.line + 20)]
        if not view[0] <= edit.line <= view[1]:
            return None
    issue = _issue(function, rng) if rng.random() < ISSUE else ""
    talk = Conversation()
    talk.say("user", compact_task(failure.failure if failure else None, suspects, issue))
    talk.call("view", {"path": path, "view_range": view})
    talk.say("tool", render_view(buggy[view[0] - 1 : view[1]], view[0]))
    kind = rng.random()
    passing = TestReport(0, tuple(str(n) for n in range(rng.randint(1, 120))), structured=True)
    if not short and kind > SHORT and kind < SHORT + RETRY + GIVE_UP:
        gives_up = kind > SHORT + RETRY
        if not _wrong_tries(talk, path, buggy, mutation, edit, function, failure, rng, 2 if gives_up else 1):
            return None
        if gives_up:
            talk.call(
                "finish",
                {
                    "outcome": "not_fixed",
                    "summary": f"The tests still fail; {function.name} in {path} may not be the cause.",
                },
            )
            return talk
        edit_weight_scored = False
    else:
        edit_weight_scored = True
    talk.call("str_replace", edit.arguments(path), scored=edit_weight_scored)
    if short or kind <= SHORT:
        return talk
    talk.say("tool", render_edit(path, "\n".join(buggy), source))
    talk.call("run_tests", {})
    talk.say("tool", render_report(passing))
    talk.call("finish", {"outcome": "fixed", "summary": f"Repaired {function.name} in {path}."})
    return talk


@dataclass(frozen=True)
class Edit:
    """Replace the lines `old`, the first of them line `line`, by `new`."""

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    def arguments(self, path: str) -> dict[str, Any]:
        """Arguments of the str_replace call."""
        return {"path": path, "line": self.line, "old_str": "\n".join(self.old), "new_str": "\n".join(self.new)}

    def apply(self, lines: Sequence[str]) -> list[str]:
        """The lines after the edit."""
        start = self.line - 1
        assert tuple(lines[start : start + len(self.old)]) == self.old
        return [*lines[:start], *self.new, *lines[start + len(self.old) :]]


def _repairing_edit(buggy: Sequence[str], mutation: Mutation, function: Function) -> Edit | None:
    """The edit that undoes a mutation. Where lines only come or go, the line above them serves as anchor."""
    line, old, new = mutation.line, mutation.after, mutation.before
    if not old or not new:
        line -= 1
        if line < function.start:
            return None
        anchor = buggy[line - 1]
        old, new = (anchor, *old), (anchor, *new)
    if any(len(text) > 300 for text in (*old, *new)):
        return None
    return Edit(line, tuple(old), tuple(new))


def _wrong_tries(
    talk: Conversation,
    path: str,
    buggy: Sequence[str],
    mutation: Mutation,
    edit: Edit,
    function: Function,
    failure: Any,
    rng: random.Random,
    count: int,
) -> bool:
    """Wrong edits with failing reports, each undone before the next; False where none could be drawn."""
    text = "\n".join(buggy) + "\n"
    end = function.end + len(mutation.after) - len(mutation.before)
    detail = failure.failure if failure else TestFailure("tests", "E   AssertionError")
    for attempt in range(count):
        slip = mutate(text, rng, function.start, end)
        if slip is None or not slip.before or not slip.after or slip.source == "\n".join(edit.apply(buggy)) + "\n":
            return False
        wrong = Edit(slip.line, slip.before, slip.after)
        back = Edit(slip.line, slip.after, slip.before)
        talk.call("str_replace", wrong.arguments(path), weight=0.0)
        talk.say("tool", render_edit(path, text, slip.source))
        talk.call("run_tests", {})
        others_passing = tuple(str(n) for n in range(rng.randint(0, 60)))
        talk.say("tool", render_report(TestReport(1, others_passing, (detail,), structured=True)))
        if attempt + 1 < count or True:
            talk.call("str_replace", back.arguments(path), weight=0.5)
            talk.say("tool", render_edit(path, slip.source, text))
    return True


def _other_suspects(
    path: str, functions: Sequence[Function], function: Function, others: Sequence[Module], rng: random.Random
) -> list[Suspect]:
    chosen: list[Suspect] = []
    for _ in range(rng.choice((0, 1, 2, 2, 2))):
        if rng.random() < 0.7 or len(others) < 2:
            other, place = rng.choice(functions), path
        else:
            module = rng.choice(others)
            prepared = _prepare(module, keep_docstrings=True) if rng.random() < 0.2 else None
            if prepared is None:
                continue
            other, place = rng.choice(prepared[1]), _repository_path(module, rng)
        if other != function and all(s.start != other.start for s in chosen):
            chosen.append(Suspect(place, *view_span(other.start, other.end, other.start), other.name))
    return chosen


def _issue(function: Function, rng: random.Random) -> str:
    return rng.choice(
        (
            f"{function.name} gives a wrong result.",
            f"Since the last change `{function.name}` misbehaves.",
            f"There is something wrong with {function.name}, please have a look.",
            f"Bug: {function.name} does not do what it says.",
        )
    )


def _repository_path(module: Module, rng: random.Random) -> str:
    parts = PurePosixPath(module.path).parts
    keep = rng.choice((1, 2, 2, 2, 3, 3, len(parts)))
    prefix = ("src",) if rng.random() < 0.25 else ()
    return "/".join((*prefix, *parts[-keep:]))


@lru_cache(maxsize=64)
def _prepare(module: Module, *, keep_docstrings: bool) -> tuple[str, list[Function]] | None:
    """A module's source, perhaps without docstrings, and its functions of at least three lines."""
    source = module.source if keep_docstrings else _without_docstrings(module.source)
    if not source.endswith("\n"):
        source += "\n"
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    functions: list[Function] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            end = node.end_lineno or node.lineno
            if 3 <= end - start + 1 <= 150:
                functions.append(Function(node.name, start, end))
    return (source, functions) if functions else None


def _without_docstrings(source: str) -> str:
    gone: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and len(node.body) > 1:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                if first.lineno > node.lineno and first.end_lineno and first.end_lineno < node.body[1].lineno:
                    gone.update(range(first.lineno, first.end_lineno + 1))
    return "\n".join(line for number, line in enumerate(source.split("\n"), 1) if number not in gone)


class _encoder:
    """Conversations to examples, with the checkpoint's own tokenizer and chat template."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer.load(TOKENIZER)
        self.prefix = [
            self.tokenizer.token_id("<|im_start|>"),
            *self.tokenizer.encode("assistant\n"),
            self.tokenizer.token_id("<think>"),
            *self.tokenizer.encode("\n\n"),
            self.tokenizer.token_id("</think>"),
            *self.tokenizer.encode("\n\n"),
        ]
        self.stop = self.tokenizer.token_id("<|im_end|>")

    def __call__(self, talk: Conversation) -> Example | None:
        ids = self.tokenizer.encode_chat(talk.messages, add_generation_prompt=False, enable_thinking=False)
        ids = ids[: -len(self.tokenizer.encode("\n"))]  # the line end behind the last turn's stop token
        if len(ids) > MAX_TOKENS:
            return None
        spans: list[Span] = []
        position = 0
        for weight, scored in talk.turns:
            start = _find(ids, self.prefix, position) + len(self.prefix)
            end = ids.index(self.stop, start) + 1
            spans.append(Span(start, end, weight, scored))
            position = end
        return Example(ids, tuple(spans))


def _find(ids: Sequence[int], pattern: Sequence[int], start: int) -> int:
    size = len(pattern)
    while True:
        start = ids.index(pattern[0], start)  # type: ignore[attr-defined]
        if list(ids[start : start + size]) == list(pattern):
            return start
        start += 1
