"""The command line: `clover-agent COMMAND`. Every command lives in its own module and is loaded when it is called."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from clover_agent import __version__
from clover_agent.errors import UsageError
from clover_agent.streams import give_up, lasting_streams
from clover_agent.verdicts import EXIT_CODES_HELP, EXIT_INFRA, EXIT_INTERRUPTED, EXIT_USAGE, Verdict

COMMANDS = (
    "clover_agent.fix_command",
    "clover_agent.generate_command",
    "clover_agent.demo",
    "clover_agent.sandbox_command",
)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code. No traceback leaves here unless --debug is given."""
    with lasting_streams(), _interruptible():
        try:
            return _run(arguments)
        except KeyboardInterrupt:
            print("clover-agent: interrupted", file=sys.stderr)
            return EXIT_INTERRUPTED


def _run(arguments: list[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="clover-agent",
        description="A coding agent on its own block-diffusion language model. Its fixes are proven by tests.",
        epilog=EXIT_CODES_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    debug = "show a traceback when something goes wrong"
    parser.add_argument("--version", action="version", version=f"clover-agent {__version__}")
    parser.add_argument("--debug", action="store_true", help=debug)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(name).register(subparsers)
    for command in subparsers.choices.values():  # behind the command it works too
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=debug)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _as_json(options, EXIT_INTERRUPTED, "interrupted")
        raise
    except Exception as fault:
        if options.debug:
            traceback.print_exc()
        code, text = _explain(fault)
        _as_json(options, code, text)
        print(f"clover-agent: {text}", file=sys.stderr)
        return code


def _as_json(options: argparse.Namespace, code: int, reason: str) -> None:
    """With --json there is a JSON object on stdout whatever happens; its verdict is null after wrong use."""
    try:
        if getattr(options, "json", False):
            verdict = {EXIT_INFRA: Verdict.INFRA_ERROR, EXIT_INTERRUPTED: Verdict.INTERRUPTED}.get(code)
            print(json.dumps({"verdict": verdict, "reason": reason, "exit_code": code}, indent=1))
        sys.stdout.flush()
    except OSError:  # stdout itself is what failed
        give_up(sys.stdout)


def _explain(fault: Exception) -> tuple[int, str]:
    """Exit code and the one line for a fault."""
    line = " ".join(str(fault).split()) or type(fault).__name__
    names = {kind.__name__ for kind in type(fault).__mro__}
    if isinstance(fault, UsageError) or "EngineError" in names:
        return EXIT_USAGE, line
    if "SandboxError" in names:
        return EXIT_INFRA, line
    if "BackendError" in names:
        return (EXIT_INFRA if getattr(fault, "retryable", False) else EXIT_USAGE), line
    if isinstance(fault, OSError):
        return EXIT_INFRA, f"{line} (free space, or check permissions, then try again)"
    return EXIT_INFRA, f"unexpected {type(fault).__name__}: {line} (run with --debug, and report it)"


@contextmanager
def _interruptible() -> Iterator[None]:
    """Within, the first of these signals raises KeyboardInterrupt, so that containers are removed; a second one ends
    the process at once (the next start removes what is left)."""
    kinds = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup it stays ignored
        kinds.append(signal.SIGHUP)
    before = {kind: signal.getsignal(kind) for kind in kinds}
    seen = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            os._exit(EXIT_INTERRUPTED)
        seen = True
        raise KeyboardInterrupt

    for kind in kinds:
        signal.signal(kind, interrupt)
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
