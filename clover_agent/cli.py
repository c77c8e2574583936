"""The command line: `clover-agent COMMAND`. Every command lives in its own module and is loaded when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from types import FrameType

from clover_agent import __version__
from clover_agent.errors import UsageError
from clover_agent.verdicts import EXIT_INFRA, EXIT_INTERRUPTED, EXIT_USAGE

COMMANDS = (
    "clover_agent.fix_command",
    "clover_agent.generate_command",
    "clover_agent.demo",
    "clover_agent.sandbox_command",
)

_EPILOG = """\
exit codes: 0 fixed (or done), 1 not fixed, 2 wrong use, 3 a limit or timeout, 75 infrastructure (try again),
130 interrupted"""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit code. No traceback leaves here unless --debug is given."""
    parser = argparse.ArgumentParser(
        prog="clover-agent",
        description="A coding agent on its own block-diffusion language model. Its fixes are proven by tests.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"clover-agent {__version__}")
    parser.add_argument("--debug", action="store_true", help="show a traceback when something goes wrong")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(name).register(subparsers)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        print("clover-agent: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_USAGE
    except Exception as fault:
        if options.debug:
            raise
        code, text = _explain(fault)
        print(f"clover-agent: {text}", file=sys.stderr)
        return code


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


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
