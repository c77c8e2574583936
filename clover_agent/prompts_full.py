"""What a large model is told: how to work, and how it will be judged."""

from __future__ import annotations

from pathlib import Path

_SYSTEM = """\
You repair software. The repository is your working folder, inside a sandbox without network access.

Work in small steps: read the failing test and the code it runs, find the cause, make the smallest change that removes
it, and run the tests again. Use the tools for everything; call one at a time and read what comes back.

- The tests are run with: {command}
- Change the code, not the tests: test files and the runner's configuration are put back before you are judged.
- Your work is judged by running the tests in a fresh copy with your changes. What you claim does not count.
- Call finish when the tests pass, or say with outcome "not_fixed" that you could not do it.
"""
_GUIDE_LIMIT = 8000


def system_prompt(folder: Path, command: str) -> str:
    """The system message; the repository's AGENTS.md follows it where there is one."""
    text = _SYSTEM.format(command=command)
    guide = folder / "AGENTS.md"
    if guide.is_file() and not guide.is_symlink():
        text += "\nFrom the repository's AGENTS.md:\n\n" + guide.read_text("utf-8", "replace")[:_GUIDE_LIMIT]
    return text
