"""The measure's own workings: tasks are real bugs that tests notice, patches are checked without the product's help."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from clover_agent.models import CHECKPOINTS
from clover_agent.nano.measure import breaking, building
from clover_agent.nano.measure.__main__ import main, read_rows, spread
from clover_agent.nano.measure.packages import PACKAGES, Package
from clover_agent.nano.measure.report import summary, wilson
from clover_agent.nano.measure.running import Row, check_patch
from clover_agent.nano.measure.suite import run_suite
from clover_agent.nano.measure.tasks import Task, load_tasks

MINI = Package("mini", "1.0", ("mini.py", "test_mini.py"), ("mini.py",), "test_mini.py")
FILES = {
    "LICENSE": "free\n",
    "mini.py": '''"""Ranges."""


def clamp(value, low, high):
    """Bring value between low and high."""
    if value < low:
        return low
    if value > high:
        return high
    return value


def untested(value):
    total = value + 1
    return total


def total(values):
    found = 0
    for value in values:
        found += value
    return found
''',
    "test_mini.py": """from mini import clamp, total


def test_clamp():
    assert [clamp(v, 1, 3) for v in range(5)] == [1, 1, 2, 3, 3]


def test_total():
    assert total([1, 2, 3]) == 6
""",
}


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sdists"
    folder.mkdir()
    with tarfile.open(folder / "mini-1.0.tar.gz", "w:gz") as tar:
        for name, text in FILES.items():
            entry = tarfile.TarInfo(f"mini-1.0/{name}")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    monkeypatch.setattr(building, "PACKAGES", (MINI,))
    return folder


def build(folder: Path, archives: Path, count: int = 4, seed: int = 3) -> list[Task]:
    return building.build(folder, archives, sys.executable, count=count, seed=seed, workers=1)


def diff_to(task: Task, folder: Path, text: str) -> Path:
    """A patch file that turns the task's broken file into `text`."""
    repo = folder / task.id / "repo"
    broken = (repo / task.path).read_text()
    (repo / task.path).write_text(text)
    patch = folder / task.id / "patch.diff"
    patch.write_bytes(subprocess.run(["git", "-C", str(repo), "diff"], check=True, capture_output=True).stdout)
    (repo / task.path).write_text(broken)
    return patch


def test_tasks_are_committed_bugs_on_covered_lines_that_the_tests_notice(tmp_path: Path, archives: Path) -> None:
    tasks = build(tmp_path / "tasks", archives)
    assert len({task.id for task in tasks}) == len(tasks) == 4
    assert load_tasks(tmp_path / "tasks") == sorted(tasks, key=lambda task: task.id)
    for task in tasks:
        repo = tmp_path / "tasks" / task.id / "repo"
        status = subprocess.run(["git", "-C", str(repo), "status", "--porcelain"], check=True, capture_output=True)
        log = subprocess.run(["git", "-C", str(repo), "log", "--format=%s"], check=True, capture_output=True, text=True)
        assert (status.stdout, log.stdout) == (b"", "base\n")
        assert (repo / "LICENSE").exists()
        assert len(task.before) == 1
        assert "untested" not in task.before[0]
        assert task.before[0] not in ("    total = value + 1", "    return total")
        run = run_suite(sys.executable, repo, task.tests)
        assert sorted(run.failed) == list(task.failing)
        assert run.exit_code == 1


def test_the_seed_decides_and_a_second_build_runs_no_tests_again(tmp_path: Path, archives: Path) -> None:
    first = build(tmp_path / "tasks", archives, count=2)
    tried = (tmp_path / "tasks" / "tried.jsonl").read_text()
    again = build(tmp_path / "tasks", archives, count=2)
    assert [replace(task, seconds=0) for task in again] == [replace(task, seconds=0) for task in first]
    assert (tmp_path / "tasks" / "tried.jsonl").read_text() == tried
    other = build(tmp_path / "other", archives, count=2, seed=4)
    assert [task.after for task in other] != [task.after for task in first]


def test_a_used_up_package_ends_the_build(tmp_path: Path, archives: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaking, "MAX_DRAWS", 1)
    assert len(build(tmp_path / "tasks", archives, count=10_000)) < 10_000


def test_missing_archives_are_named_and_left_out(
    tmp_path: Path, archives: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (archives / "mini-1.0.tar.gz").unlink()
    assert build(tmp_path / "tasks", archives) == []
    assert "mini-1.0.tar.gz is missing" in capsys.readouterr().out


def test_patches_are_judged_by_the_tests(tmp_path: Path, archives: Path) -> None:
    folder = tmp_path / "tasks"
    task = build(folder, archives, count=1)[0]
    repo, none = folder / task.id / "repo", folder / "none.diff"
    assert check_patch(task, repo, none, sys.executable) == ("no_patch", False)
    right = diff_to(task, folder, FILES["mini.py"])
    assert check_patch(task, repo, right, sys.executable) == ("passes", True)
    other = diff_to(task, folder, FILES["mini.py"] + "\n# another way\n")
    assert check_patch(task, repo, other, sys.executable) == ("passes", False)
    wrong = diff_to(task, folder, FILES["mini.py"].replace("return low", "return 7"))
    assert check_patch(task, repo, wrong, sys.executable) == ("fails", False)
    gone = diff_to(task, folder, FILES["mini.py"].replace("def total", "def sum_up"))
    assert check_patch(task, repo, gone, sys.executable) == ("fails", False)
    garbage = folder / "garbage.diff"
    garbage.write_text("--- a/mini.py\n+++ b/mini.py\n@@ -1 +1 @@\n-nothing of it\n+else\n")
    assert check_patch(task, repo, garbage, sys.executable) == ("no_apply", False)


def test_a_hanging_suite_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "test_hang.py").write_text("import time\ndef test_it():\n    time.sleep(30)\n")
    run = run_suite(sys.executable, tmp_path, "test_hang.py", limit=1.5)
    assert run.exit_code is None
    assert run.seconds < 20


def row(number: int, **changes: object) -> Row:
    base = Row(f"p-{number:02d}-x", "p", "x", "fixed", 0, "passes", True, 10.0 + number, 900.0, 4, 4, 1)
    return replace(base, **changes)  # type: ignore[arg-type]


def test_the_summary_counts_what_the_product_claims_against_what_holds() -> None:
    rows = [row(0), row(1, check="fails"), row(2, verdict="not_fixed", check="no_patch", exact=False, valid_calls=3)]
    text = summary(rows)
    assert "2 of 3 = 66.7%" in text
    assert "false fixed         1" in text
    assert "11 of 12 = 91.67%" in text
    assert "fixed 2, not_fixed 1" in text
    assert summary([]) == "no results yet"
    assert wilson(0, 10)[0] == 0.0
    assert wilson(80, 200) == pytest.approx((0.3346, 0.4692), abs=1e-3)  # a textbook value


def test_results_are_read_back_without_runs_that_infrastructure_broke(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    rows = [row(0), row(1, verdict="infra_error"), row(0, verdict="not_fixed")]
    file.write_text("".join(json.dumps(r.__dict__) + "\n" for r in rows))
    assert [r.verdict for r in read_rows(file)] == ["not_fixed"]
    assert read_rows(tmp_path / "none.jsonl") == []


def test_packages_take_turns() -> None:
    tasks = [
        Task(f"{name}-{i}", name, "1", "x", "m.py", 1, ("a",), ("b",), "tests", "", ("t",), 1, 1.0)
        for name in "ab"
        for i in range(3)
    ]
    assert [t.id for t in spread(tasks, 4)] == ["a-0", "b-0", "a-1", "b-1"]


def test_no_tasks_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(tmp_path), "run"]) == 2
    assert "no tasks" in capsys.readouterr().err


def test_there_are_enough_packages_and_each_is_named_once() -> None:
    names = [package.name for package in PACKAGES]
    assert len(names) == len(set(names)) >= 20


def test_no_measured_package_was_trained_on() -> None:
    manifest = json.loads((CHECKPOINTS / "clover-nano" / "training-packages.json").read_text())
    trained = {re.sub(r"[-_.]+", "-", name).lower() for name in manifest}
    assert len(trained) > 200
    assert trained.isdisjoint(re.sub(r"[-_.]+", "-", package.name).lower() for package in PACKAGES)
