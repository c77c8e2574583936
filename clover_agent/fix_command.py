"""`clover-agent fix`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clover_agent.errors import UsageError
from clover_agent.verdicts import Verdict, exit_code

if TYPE_CHECKING:
    from clover_agent.fix import FixResult


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "fix",
        help="repair a repository whose tests fail, and prove it",
        description="Repair a repository whose tests fail. Works on a copy in a container; the result is a patch and a "
        "verdict from re-running the tests. Uncommitted changes are part of the copy; your files are not touched.",
    )
    parser.add_argument("path", metavar="PATH", type=Path, help="the top folder of a git repository")
    parser.add_argument("--test", metavar="CMD", required=True, help="the shell command that fails, e.g. 'pytest -q'")
    parser.add_argument("--issue", metavar="TEXT|@FILE", default="", help="what is wrong, in words")
    parser.add_argument(
        "--model", metavar="NAME|PATH", default="clover-nano", help="clover-nano or a checkpoint folder"
    )
    parser.add_argument("--max-turns", metavar="N", type=positive, help="replies of the model in one attempt")
    parser.add_argument("--time-limit", metavar="SECONDS", type=seconds, default=600.0, help="in all (600)")
    parser.add_argument("--attempts", metavar="N", type=positive, help="fresh starts at most (64 for small models)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="repeats a run (0)")
    parser.add_argument("--repeats", metavar="N", type=positive, default=3, help="verifying test runs (3)")
    parser.add_argument("--test-timeout", metavar="SECONDS", type=seconds, default=300.0, help="of one test run (300)")
    parser.add_argument("--image", metavar="TAG", help="sandbox image (the one `clover-agent sandbox build` makes)")
    parser.add_argument("--allow-test-changes", action="store_true", help="grade with the model's changes to tests")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    out = parser.add_mutually_exclusive_group()
    out.add_argument("--patch", metavar="FILE", type=Path, help="write the patch there instead of printing it")
    out.add_argument("--apply", action="store_true", help="apply a verified patch to PATH")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; returns the verdict's exit code."""
    from clover_agent.console import Console
    from clover_agent.fix import FixRequest, run_fix
    from clover_agent.repository import check_repository
    from sandboxes.image import DEFAULT_IMAGE

    if not options.test.strip():
        raise UsageError("--test is empty: give the command that fails, e.g. --test 'pytest -q'")
    check_repository(options.path)
    if options.patch is not None and not options.patch.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {options.patch.absolute().parent} for --patch: make it first")
    request = FixRequest(
        path=options.path,
        test=options.test,
        issue=_issue(options.issue),
        model=options.model,
        max_turns=options.max_turns,
        time_limit=options.time_limit,
        attempts=options.attempts,
        seed=options.seed,
        image=options.image or DEFAULT_IMAGE,
        repeats=options.repeats,
        test_timeout=options.test_timeout,
        allow_test_changes=options.allow_test_changes,
    )
    result = run_fix(request, Console(sys.stderr))
    code = exit_code(result.verdict)
    applied = ""
    if options.patch is not None and result.patch:
        options.patch.write_bytes(result.patch)
        applied = f"patch written to {options.patch}"
    elif options.apply:
        applied, code = _apply(options.path, result, code)
    if options.json:
        print(json.dumps(result.to_json(), indent=1))
    else:
        sys.stdout.write(summary(result, show_patch=options.patch is None))
    if applied:
        print(f"clover-agent: {applied}", file=sys.stderr)
    return code


def summary(result: FixResult, *, show_patch: bool) -> str:
    """The result for people."""
    lines = [f"{result.verdict}: {result.reason}"]
    if result.before is not None and result.before.structured:
        before = (
            f"{len(result.before.failed) + len(result.before.collection_errors)} fail, {len(result.before.passed)} pass"
        )
        after = ""
        if result.after is not None:
            after = f" -> after: {len(result.after.failed)} fail, {len(result.after.passed)} pass"
        lines.append(f"tests before: {before}{after}")
    lines.append(
        f"{result.seconds:.1f} s, {result.attempts} attempts, {result.turns} turns, "
        f"{result.usage.completion_tokens} tokens in {result.usage.passes + result.usage.commits} passes"
    )
    lines.append(f"evidence: {result.run_folder}")
    text = "\n".join(lines) + "\n"
    if show_patch and result.patch:
        unproven = "" if result.verdict is Verdict.FIXED else " (not verified as a fix)"
        text += f"\npatch{unproven}:\n{result.patch.decode('utf-8', 'replace')}"
    return text


def positive(text: str) -> int:
    """A whole number above zero, for argparse."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def seconds(text: str) -> float:
    """A time in seconds above zero, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds")
    return value


def _issue(text: str) -> str:
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"the issue file {text[1:]} can't be read: {fault}") from None


def _apply(path: Path, result: FixResult, code: int) -> tuple[str, int]:
    from clover_agent.repository import apply_patch

    if result.verdict is not Verdict.FIXED:
        return "nothing applied: the patch is not verified", code
    if fault := apply_patch(path, result.patch):
        return f"the patch does not apply any more ({fault}); it is in {result.run_folder / 'patch.diff'}", 1
    return f"patch applied to {path}", code
