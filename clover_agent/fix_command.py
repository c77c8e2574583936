"""`clover-agent fix`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clover_agent.arguments import positive, seconds, seed
from clover_agent.errors import UsageError
from clover_agent.verdicts import EXIT_CODES_HELP, EXIT_INFRA, EXIT_NOT_FIXED, Verdict, exit_code

if TYPE_CHECKING:
    from clover_agent.fix import FixResult


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "fix",
        help="repair a repository whose tests fail, and prove it",
        description="Repair a repository whose tests fail. Works on a copy in a container; the result is a patch and a "
        "verdict from re-running the tests. Uncommitted changes are part of the copy; your files are not touched.",
        epilog=EXIT_CODES_HELP,
    )
    parser.add_argument("path", metavar="PATH", type=Path, help="the top folder of a git repository")
    parser.add_argument(
        "--test", metavar="CMD", required=True, help="shell command that fails, e.g. 'python -m pytest'"
    )
    parser.add_argument("--issue", metavar="TEXT|@FILE", default="", help="what is wrong, in words")
    parser.add_argument(
        "--model", metavar="NAME|PATH", default="clover-nano", help="clover-nano or a checkpoint folder"
    )
    parser.add_argument(
        "--max-turns",
        metavar="N",
        type=positive,
        help="replies of the model in one attempt (8 for small models, 100 for others)",
    )
    parser.add_argument("--time-limit", metavar="SECONDS", type=seconds, default=600.0, help="time in all (600)")
    parser.add_argument(
        "--attempts", metavar="N", type=positive, help="fresh starts at most (64 for small models, 1 for others)"
    )
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="repeats a run (0)")
    parser.add_argument("--repeats", metavar="N", type=positive, default=3, help="verifying test runs (3)")
    parser.add_argument(
        "--test-timeout", metavar="SECONDS", type=seconds, default=300.0, help="time of one test run (300)"
    )
    parser.add_argument("--image", metavar="TAG", help="sandbox image (the one `clover-agent sandbox build` makes)")
    parser.add_argument("--allow-test-changes", action="store_true", help="grade with the model's changes to tests")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    out = parser.add_mutually_exclusive_group()
    out.add_argument("--patch", metavar="FILE", help="write the patch there instead of printing it")
    out.add_argument("--apply", action="store_true", help="apply a verified patch to PATH")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run it; returns the verdict's exit code."""
    from clover_agent.console import Console
    from clover_agent.fix import FixRequest, run_fix
    from clover_agent.models import model_folder
    from clover_agent.repository import check_repository
    from sandboxes.image import DEFAULT_IMAGE

    if not options.test.strip():
        raise UsageError("--test is empty: give the command that fails, e.g. --test 'pytest -q'")
    check_repository(options.path)
    patch = _patch_file(options.patch)
    model_folder(options.model)  # a missing one is told at once
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
    if patch is not None:
        said, code = _write(patch, result, code)
    elif options.apply:
        said, code = _apply(options.path, result, code)
    else:
        said = ""
    if options.json:
        print(json.dumps(result.to_json(), indent=1))
    else:
        sys.stdout.write(summary(result, show_patch=patch is None))
    if said:
        sys.stdout.flush()
        print(f"clover-agent: {said}", file=sys.stderr)
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
        f"{result.seconds:.1f} s, {result.attempts} attempt{'' if result.attempts == 1 else 's'}, "
        f"{result.turns} turn{'' if result.turns == 1 else 's'}, "
        f"{result.usage.completion_tokens} tokens in {result.usage.passes + result.usage.commits} passes"
    )
    lines.append(f"evidence: {result.run_folder}")
    text = "\n".join(lines) + "\n"
    if show_patch and result.patch:
        text += f"\npatch{_unproven(result)}:\n{result.patch.decode('utf-8', 'replace')}"
    return text


def _issue(text: str) -> str:
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"the issue file {text[1:]} is not UTF-8 text: give one that is") from None
        except OSError as fault:
            raise UsageError(f"the issue file {text[1:]!r} can't be read: {fault.strerror}") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("--issue is not UTF-8 text: give text that is") from None
    return text


def _patch_file(text: str | None) -> Path | None:
    """Where the patch is to go. What can't be written to is told before the work is done, not after."""
    if text is None:
        return None
    file = Path(text)
    folder = file.absolute().parent
    if not text or file.is_dir():
        raise UsageError(f"--patch needs the name of a file, and {text!r} is none")
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder} for --patch: make it first")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise UsageError(f"--patch can't write {file}: choose another place")
    return file


def _write(file: Path, result: FixResult, code: int) -> tuple[str, int]:
    if not result.patch:
        return "no patch was written: there is none", code
    try:
        file.write_bytes(result.patch)
    except OSError as fault:
        stored = result.run_folder / "patch.diff"
        return f"the patch can't be written to {file} ({fault.strerror}); it is in {stored}", code or EXIT_INFRA
    return f"patch{_unproven(result)} written to {file}", code


def _apply(path: Path, result: FixResult, code: int) -> tuple[str, int]:
    from clover_agent.repository import apply_patch

    if result.verdict is not Verdict.FIXED:
        return "nothing was applied: there is no verified patch", code
    if fault := apply_patch(path, result.patch):
        stored = result.run_folder / "patch.diff"
        return f"the patch does not apply any more ({fault}); it is in {stored}", EXIT_NOT_FIXED
    return f"patch applied to {path}", code


def _unproven(result: FixResult) -> str:
    return "" if result.verdict is Verdict.FIXED else " (not verified as a fix)"
