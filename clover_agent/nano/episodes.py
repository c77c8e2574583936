"""Agent episodes for training clover-nano: a bug in a real function, and the conversation that repairs it.

Everything is rendered by the product's own code (prompts, tool observations, tool calls), so the model is trained on
exactly what it will read. One conversation: the task, `view` of the first suspect, `str_replace`, and in part of them
the edit's diff, `run_tests`, its report, a correction where the first edit was wrong, `finish`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clover_agent.nano.conversation import Conversation, Encoder
from clover_agent.nano.corpus import Module, read_corpus
from clover_agent.nano.edits import Edit, needless_change, repairing_edit, wrong_change
from clover_agent.nano.executed.records import FILE, Executed, Fault, read_executed
from clover_agent.nano.failures import DrawnFailure, Target, draw_failure, show_failure
from clover_agent.nano.functions import Function, Prepared, prepare, repository_path
from clover_agent.prompts import VIEW_LINES, Suspect, compact_task, view_span
from engine.tokenizer import Tokenizer
from engine.toolcalls import parse_reply
from engine.training.bugs import Mutation, mutate
from engine.training.packing import Example
from tools.render import TestFailure, TestReport, render_edit, render_report, render_view

TOKENIZER = Path(__file__).parents[2] / "engine" / "checkpoints" / "clover-nano"
MAX_TOKENS = 1400
DRAWS_PER_MODULE, EXECUTED_PER_MODULE = 24, 80
EXECUTED_DRAWS = 2  # episodes about each executed failure, for a module's 24 about invented ones
RETRY, GIVE_UP, WHOLE = 0.05, 0.01, 0.08  # shares of episodes; the rest ends after the edit
ROUTINE = 0.3  # loss weight of the turns that are not edits: they are easy
NO_SUSPECTS, ISSUE = 0.08, 0.05
ELSEWHERE = 256  # functions of earlier modules kept as further suspects
PLAIN_DOCSTRINGS = 0.4  # share of modules that keep their docstrings


@dataclass(frozen=True)
class Bug:
    """A mutated function. path: the file's; sound, buggy: its text and its lines; edit: what repairs it.

    mutant: the function's name with its lines in the buggy file.
    """

    path: str
    sound: str
    buggy: tuple[str, ...]
    function: Function
    mutant: Function
    mutation: Mutation
    edit: Edit

    @property
    def target(self) -> Target:
        """What a failing test is told about."""
        return Target(self.path, self.mutant, self.mutation.line, self.buggy)


def stream(corpus_path: str, seed: int, worker: int, workers: int) -> Iterator[Example]:
    """Endless training examples; each of `workers` processes draws from its own share of the modules."""
    rng = random.Random(f"{seed}/{worker}")
    modules = read_corpus(corpus_path)[worker::workers]
    encode = Encoder(Tokenizer.load(TOKENIZER))
    elsewhere: deque[Suspect] = deque(maxlen=ELSEWHERE)
    while True:
        executed = read_executed(Path(corpus_path).with_name(FILE))  # it may have grown
        rng.shuffle(modules)
        for module in modules:
            real = executed.get((module.package, module.path), [])
            chosen = rng.sample(real, min(len(real), EXECUTED_PER_MODULE)) * EXECUTED_DRAWS
            for conversation in draw_episodes(module, elsewhere, rng, DRAWS_PER_MODULE, executed=chosen):
                example = encode(conversation, MAX_TOKENS)
                if example is not None:
                    yield example


def heldout(corpus_path: str, count: int, seed: int = 1) -> list[Example]:
    """`count` short episodes from the held-out packages, one scored edit each, at most a few from a module."""
    rng = random.Random(seed)
    modules = read_corpus(corpus_path, held_out_packages=True)
    encode = Encoder(Tokenizer.load(TOKENIZER))
    elsewhere: deque[Suspect] = deque(maxlen=ELSEWHERE)
    found: list[Example] = []
    while len(found) < count:
        rng.shuffle(modules)
        for module in modules:
            for conversation in draw_episodes(module, elsewhere, rng, 2, short=True):
                example = encode(conversation, MAX_TOKENS)
                if example is not None and len(found) < count:
                    found.append(example)
    return found


def score(expected_text: str, actual_text: str) -> dict[str, bool]:
    """Compare two edit turns: `located` when they replace the same lines, `exact` when by the same text too."""
    expected, actual = _edit_of(expected_text), _edit_of(actual_text)
    located = actual is not None and expected is not None and actual[:2] == expected[:2]
    return {"located": located, "exact": located and actual == expected}


def _edit_of(text: str) -> tuple[str, str, str] | None:
    calls = parse_reply(text.replace("<|im_end|>", "").replace("<|endoftext|>", "")).calls
    if len(calls) != 1 or calls[0].arguments is None:
        return None
    values = {name: str(value) for name, value in calls[0].arguments.items()}
    return values.get("path", "") + ":" + values.get("line", ""), values.get("old_str", ""), values.get("new_str", "")


def draw_episodes(
    module: Module,
    elsewhere: deque[Suspect],
    rng: random.Random,
    count: int,
    *,
    executed: Sequence[Executed] = (),
    short: bool = False,
) -> Iterator[Conversation]:
    """Up to `count` conversations about bugs in `module`, and one about each of `executed`.

    elsewhere: functions of modules seen before, shown as further suspects now and then; this module's are added.
    short: end after the edit.
    """
    prepared = prepare(module, keep_docstrings=rng.random() < PLAIN_DOCSTRINGS)
    if prepared is None:
        return
    found = [executed_bug(module, prepared, record, rng) for record in executed]
    found += [draw_bug(module, prepared, rng) for _ in range(min(count, 4 * len(prepared.functions)))]
    for pair in filter(None, found):
        conversation = episode(*pair, _other_suspects(pair[0], prepared, elsewhere, rng), rng, short=short)
        if conversation is not None:
            yield conversation
    for function in rng.sample(prepared.functions, min(4, len(prepared.functions))):
        elsewhere.append(_suspect(repository_path(module, rng), function))


def draw_bug(module: Module, prepared: Prepared, rng: random.Random) -> tuple[Bug, DrawnFailure | None] | None:
    """A random bug in a random function, with an invented failure."""
    function = rng.choice(prepared.functions)
    mutation = mutate(prepared.source, rng, function.start, function.end)
    bug = _bug(repository_path(module, rng), prepared.source, function, mutation) if mutation else None
    return (bug, draw_failure(bug.target, rng)) if bug else None


def executed_bug(
    module: Module, prepared: Prepared, record: Executed, rng: random.Random
) -> tuple[Bug, DrawnFailure] | None:
    """A bug that was run, with its real failure; None where it can't be told in `prepared` (docstrings gone)."""
    line = prepared.line(record.line)
    lines = prepared.source.split("\n")
    size = len(record.before)
    if tuple(lines[line - 1 : line - 1 + size]) != record.before:
        return None
    source = "\n".join([*lines[: line - 1], *record.after, *lines[line - 1 + size :]])
    mutation = Mutation(record.operator, line, record.before, record.after, source)
    function = Function(record.function, prepared.line(record.start), prepared.line(record.end))
    bug = _bug(repository_path(module, rng), prepared.source, function, mutation)
    if bug is None:
        return None
    frames: list[tuple[int, str]] = []
    for number, name in record.fault.frames:
        if record.growth and number > record.end + record.growth:
            return None  # lines behind a mutation that adds or drops some were counted without it
        behind = record.growth if number > record.line + len(record.after) - 1 else 0
        frames.append((prepared.line(number - behind) + behind, name))
    return bug, show_failure(bug.target, record.check, Fault(tuple(frames), record.fault.errors), rng)


def _bug(path: str, sound: str, function: Function, mutation: Mutation) -> Bug | None:
    buggy = tuple(mutation.source.removesuffix("\n").split("\n"))
    edit = repairing_edit(buggy, mutation, function)
    if edit is None:
        return None
    mutant = Function(function.name, function.start, function.end + len(mutation.after) - len(mutation.before))
    return Bug(path, sound, buggy, function, mutant, mutation, edit)


def episode(
    bug: Bug, failure: DrawnFailure | None, others: Sequence[Suspect], rng: random.Random, *, short: bool = False
) -> Conversation | None:
    """The conversation about `bug`; None where the view would not show what must be edited."""
    jitter = rng.randint(-12, 12) if bug.mutant.end - bug.mutant.start >= VIEW_LINES else 0
    first, last = view_span(bug.mutant.start, bug.mutant.end, bug.mutation.line + jitter)
    suspects = [Suspect(bug.path, first, last, bug.mutant.name), *others]
    if failure is not None and failure.line and rng.random() < NO_SUSPECTS:
        suspects = []
        first, last = max(1, failure.line - 20), min(len(bug.buggy), failure.line + 20)
    if not first <= bug.edit.line <= bug.edit.last <= last:
        return None
    issue = _issue(bug.mutant.name, rng) if rng.random() < ISSUE else ""
    talk = Conversation()
    talk.say("user", compact_task(failure.failure if failure else None, suspects, issue))
    talk.call("view", {"path": bug.path, "view_range": [first, last]}, weight=ROUTINE)
    talk.say("tool", render_view(bug.buggy[first - 1 : last], first))
    kind = 1.0 if short else rng.random()
    shown = failure.failure if failure else TestFailure("tests", "E   AssertionError")
    if kind < RETRY:
        return talk if _retry(talk, bug, shown, rng) else None
    if kind < RETRY + GIVE_UP:
        return talk if _give_up(talk, bug, shown, rng) else None
    talk.call("str_replace", bug.edit.arguments(bug.path), scored=True)
    if kind < RETRY + GIVE_UP + WHOLE:
        _success(talk, bug, list(bug.buggy), rng)
    return talk


def _success(talk: Conversation, bug: Bug, before: Sequence[str], rng: random.Random) -> None:
    """What follows the right edit."""
    talk.say("tool", render_edit(bug.path, "\n".join(before), bug.sound))
    talk.call("run_tests", {}, weight=ROUTINE)
    passed = tuple(str(number) for number in range(rng.randint(1, 120)))
    talk.say("tool", render_report(TestReport(0, passed, structured=True)))
    summary = f"Repaired {bug.function.name} in {bug.path}."
    talk.call("finish", {"outcome": "fixed", "summary": summary}, weight=ROUTINE)


def _wrong_try(talk: Conversation, bug: Bug, edit: Edit, shown: TestFailure, rng: random.Random) -> list[str]:
    """A wrong edit of the buggy file, not to be learned, and the report that says so. Returns the file's lines."""
    changed = edit.apply(bug.buggy)
    talk.call("str_replace", edit.arguments(bug.path), weight=0.0)
    talk.say("tool", render_edit(bug.path, "\n".join(bug.buggy), "\n".join(changed)))
    talk.call("run_tests", {}, weight=ROUTINE)
    passed = tuple(str(number) for number in range(rng.randint(0, 60)))
    talk.say("tool", render_report(TestReport(1, passed, (shown,), structured=True)))
    return changed


def _take_back(talk: Conversation, bug: Bug, edit: Edit, changed: Sequence[str]) -> None:
    talk.call("str_replace", edit.undone().arguments(bug.path), weight=0.5)
    talk.say("tool", render_edit(bug.path, "\n".join(changed), "\n".join(bug.buggy)))


def _retry(talk: Conversation, bug: Bug, shown: TestFailure, rng: random.Random) -> bool:
    """A wrong edit, then the right one; False where no wrong one could be drawn."""
    right_place = rng.random() < 0.5
    wrong = wrong_change(bug.sound, bug.edit, rng) if right_place else None
    if wrong is not None:
        changed = _wrong_try(talk, bug, wrong, shown, rng)
        talk.call("str_replace", Edit(wrong.line, wrong.new, bug.edit.new).arguments(bug.path))
        _success(talk, bug, changed, rng)
        return True
    wrong = needless_change(bug.sound, bug.edit, bug.function, rng)
    if wrong is None:
        return False
    _take_back(talk, bug, wrong, _wrong_try(talk, bug, wrong, shown, rng))
    talk.call("str_replace", bug.edit.arguments(bug.path))
    _success(talk, bug, bug.buggy, rng)
    return True


def _give_up(talk: Conversation, bug: Bug, shown: TestFailure, rng: random.Random) -> bool:
    """Two wrong edits, then an honest end; False where they could not be drawn."""
    for _ in range(2):
        wrong = needless_change(bug.sound, bug.edit, bug.function, rng)
        if wrong is None:
            return False
        _take_back(talk, bug, wrong, _wrong_try(talk, bug, wrong, shown, rng))
    summary = f"The tests still fail; {bug.function.name} in {bug.path} may not be the cause."
    talk.call("finish", {"outcome": "not_fixed", "summary": summary})
    return True


def _other_suspects(bug: Bug, prepared: Prepared, elsewhere: deque[Suspect], rng: random.Random) -> list[Suspect]:
    chosen: list[Suspect] = []
    for _ in range(rng.choice((0, 1, 2, 2, 2))):
        if elsewhere and rng.random() < 0.1:
            other = rng.choice(elsewhere)
        else:
            other = _suspect(bug.path, rng.choice(prepared.functions))
        if other.start != bug.function.start and all(s.name != other.name for s in chosen):
            chosen.append(other)
    return chosen


def _suspect(path: str, function: Function) -> Suspect:
    return Suspect(path, *view_span(function.start, function.end, function.start), function.name)


def _issue(name: str, rng: random.Random) -> str:
    return rng.choice(
        (
            f"{name} gives a wrong result.",
            f"Since the last change `{name}` misbehaves.",
            f"There is something wrong with {name}, please have a look.",
            f"Bug: {name} does not do what it says.",
        )
    )
