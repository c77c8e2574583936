"""`clover-agent sandbox build`."""

from __future__ import annotations

import argparse
import sys


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("sandbox", help="the Docker image that the model works in")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = actions.add_parser(
        "build",
        help="make the default image where it is missing",
        description="Make the default sandbox image (Debian with Python, pytest, git, make and ripgrep) where it is "
        "missing: from the registry's Debian image, or from Debian packages, which needs root. A few minutes.",
    )
    build.add_argument("--force", action="store_true", help="make it anew")
    build.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Build the image; progress on stderr."""
    from sandboxes.image import build

    build(lambda text: print(text, file=sys.stderr, flush=True), force=options.force)
    return 0
