"""A bug task: a package with its tests, one line of it broken, as a git repository."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from clover_agent.repository import commit_all


@dataclass(frozen=True)
class Task:
    """A bug to fix. Its git repository is the folder `repo` beside task.json; seconds: one run of the tests.

    failing: the tests that notice the bug, by JUnit's names; passing: how many do not.
    """

    id: str
    package: str
    version: str
    operator: str
    path: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    tests: str
    python_path: str
    failing: tuple[str, ...]
    passing: int
    seconds: float

    @property
    def command(self) -> str:
        """What a user would type to run the tests."""
        return f"{f'PYTHONPATH={self.python_path} ' if self.python_path else ''}python3 -m pytest -q {self.tests}"


def load_tasks(folder: Path) -> list[Task]:
    """The tasks in `folder`, in the order of their ids."""
    found = []
    for file in sorted(folder.glob("*/task.json")):
        row = json.loads(file.read_text())
        found.append(Task(**{**row, **{key: tuple(row[key]) for key in ("before", "after", "failing")}}))
    return found


def write_task(folder: Path, task: Task, base: Path, source: str) -> None:
    """Write `task` into `folder`: the sources of `base` with the broken file in them, in one commit, and task.json."""
    repo = folder / task.id / "repo"
    shutil.rmtree(folder / task.id, ignore_errors=True)
    shutil.copytree(base, repo)
    (repo / task.path).write_bytes(source.encode())
    commit_all(repo)
    (folder / task.id / "task.json").write_text(json.dumps(asdict(task), indent=1) + "\n")
