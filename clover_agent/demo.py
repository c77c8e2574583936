"""`clover-agent demo`: a fresh random bug in a small library, found and repaired in front of the user.

The bug is drawn after the command has started and shown only when the run is over. Everything in between is the code
path of `clover-agent fix`.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from clover_agent.arguments import seconds
from clover_agent.arguments import seed as seed_type
from clover_agent.unmasking import harmless
from clover_agent.verdicts import EXIT_CODES_HELP, Verdict, exit_code

if TYPE_CHECKING:
    from clover_agent.backends.protocol import Backend
    from clover_agent.fix import FixResult
    from clover_agent.injection import Injected
    from clover_agent.unmasking import Unmasking
    from tools.render import TestReport

DEFAULT_TIME_LIMIT = 180.0
_TRIAL_SECONDS = 30.0


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "demo",
        help="watch a fresh random bug being repaired",
        description="Puts a fresh random bug into a small library, lets the model repair it, and verifies the result.",
        epilog=EXIT_CODES_HELP,
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=seed_type,
        default=None,
        help="repeat the bug of an earlier run (default: a new one)",
    )
    parser.add_argument(
        "--model", metavar="NAME|PATH", default="clover-nano", help="checkpoint name or folder (default: clover-nano)"
    )
    parser.add_argument(
        "--time-limit",
        type=seconds,
        default=DEFAULT_TIME_LIMIT,
        metavar="SECONDS",
        help="for the repair (default: 180)",
    )
    parser.add_argument("--no-blocks", action="store_true", help="do not show the model's blocks being unmasked")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code of `fix`. Raises SandboxError, BackendError, UsageError."""
    from clover_agent.models import load_embedded

    seed = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    print(f"loading {arguments.model}", file=sys.stderr, flush=True)
    backend = load_embedded(arguments.model)
    blocks = None if arguments.no_blocks else blocks_of(backend, sys.stderr)
    return show(backend, seed, arguments.time_limit, blocks=blocks)


def show(
    backend: Backend,
    seed: int,
    time_limit: float,
    *,
    blocks: Unmasking | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Draw a bug, have it repaired, tell what happened: progress on `err`, the outcome on `out`."""
    from clover_agent.console import Console
    from clover_agent.fix import FixRequest, run_fix
    from clover_agent.injection import TEST_COMMAND, copy_library, inject
    from clover_agent.repository import commit_all

    console = Console(err or sys.stderr, blocks)
    with tempfile.TemporaryDirectory(prefix="clover-demo-") as scratch:
        folder = Path(scratch, "tidbits")
        copy_library(folder)
        console.say(f"drawing a random bug (seed {seed}) that the library's tests notice")
        with trial(folder) as noticed:
            bug = inject(folder, random.Random(seed), noticed)
        console.say("a bug is in: neither you nor the model know which; it is told at the end")
        commit_all(folder)
        request = FixRequest(path=folder, test=TEST_COMMAND, time_limit=time_limit, seed=seed)
        result = run_fix(request, console, backend)
    print(report(bug, result, seed), end="", file=out or sys.stdout, flush=True)
    return exit_code(result.verdict)


@contextmanager
def trial(folder: Path) -> Iterator[Callable[[str, bytes], bool]]:
    """A question to the library's tests in a sandbox: does one of them fail with this content of that file?"""
    from clover_agent.injection import TEST_COMMAND
    from sandboxes.docker_sandbox import DockerSandbox
    from tools.testing import run_test_command

    with DockerSandbox.start(folder) as sandbox:

        def noticed(path: str, content: bytes) -> bool:
            before = sandbox.read_bytes(path)
            sandbox.write_bytes(path, content)
            report = run_test_command(sandbox, TEST_COMMAND, timeout=_TRIAL_SECONDS)
            sandbox.write_bytes(path, before)
            return bool(report.failed) and not report.collection_errors

        yield noticed


def blocks_of(backend: Backend, stream: TextIO) -> Unmasking | None:
    """A view of the blocks of an embedded model; None for models that are not run here."""
    from clover_agent.backends.embedded import EmbeddedBackend
    from clover_agent.unmasking import Unmasking

    if not isinstance(backend, EmbeddedBackend):
        return None
    engine = backend.engine
    padding = engine.generation_config.pad_token_id
    hidden = frozenset() if padding is None else frozenset({padding})
    return Unmasking(stream, engine.tokenizer.decode, engine.config.mask_token_id, hidden)


def report(bug: Injected, result: FixResult, seed: int) -> str:
    """The outcome: patch, the bug as it was drawn, tests before and after, verdict and cost."""
    lines = ["", "Patch", *_indented(result.patch.decode("utf-8", "replace") or "(none)")]
    mutation = bug.mutation
    lines += ["", f"The bug (drawn at random: {mutation.operator.replace('_', ' ')}), {bug.path} line {mutation.line}"]
    lines += _indented(
        "\n".join([*(f"- {line}" for line in mutation.before), *(f"+ {line}" for line in mutation.after)])
    )
    lines += ["", f"Tests before  {counts(result.before)}", f"Tests after   {counts(result.after)}"]
    usage = result.usage
    passes = usage.passes + usage.commits
    speed = f", {usage.completion_tokens / passes:.1f} tokens a pass" if passes else ""
    attempts = f"{result.attempts} attempt{'' if result.attempts == 1 else 's'}"
    lines += (
        [f"Verdict       {result.verdict} ({result.reason})"] if result.reason else [f"Verdict       {result.verdict}"]
    )
    lines += [f"Cost          {result.seconds:.0f} s, {attempts}, {usage.completion_tokens} tokens{speed}"]
    if result.verdict != Verdict.FIXED:
        lines += ["", "The model did not repair this one. Nothing was staged: another run draws another bug."]
    lines += ["", f"Again with this bug: clover-agent demo --seed {seed}", ""]
    return harmless("\n".join(lines))


def counts(report: TestReport | None) -> str:
    """A test run in a few words."""
    if report is None:
        return "not run"
    if report.timed_out:
        return "did not finish in time"
    return f"{len(report.failed)} fail, {len(report.passed)} pass" if report.failed else f"all {report.total} pass"


def _indented(text: str) -> list[str]:
    return [f"  {line}".rstrip() for line in text.rstrip("\n").split("\n")]
