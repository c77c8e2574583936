"""The whole product with its own model and a real engine: a bug is found, repaired and proven."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

STATS = '''"""Small statistics."""


def clamp(value, low, high):
    """`value`, or the limit that it exceeds."""
    if value > low:
        return low
    if value > high:
        return high
    return value


def spread(values):
    """Distance of the extremes."""
    return max(values) - min(values)
'''
TESTS = """from stats import clamp, spread


def test_clamp():
    assert clamp(5, 0, 3) == 3
    assert clamp(-5, 0, 3) == 0


def test_inside():
    assert clamp(2, 0, 3) == 2


def test_spread():
    assert spread([4, 1, 3]) == 3
"""


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=u", "-c", "user.email=u@localhost")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def test_clover_nano_repairs_a_bug_and_the_tests_prove_it(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "stats.py").write_text(STATS)
    (repo / "test_stats.py").write_text(TESTS)
    git(repo, "init", "-q")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "first")
    command = [sys.executable, "-m", "clover_agent", "fix", str(repo), "--test", "python3 -m pytest -q", "--json"]
    done = subprocess.run([*command, "--time-limit", "240"], check=False, capture_output=True, text=True, timeout=300)
    result = json.loads(done.stdout)
    assert (done.returncode, result["verdict"]) == (0, "fixed"), done.stderr[-2000:]
    assert result["tool_calls"]["valid"] == result["tool_calls"]["total"] > 0
    (repo / "fix.patch").write_text(result["patch"])
    git(repo, "apply", "fix.patch")
    subprocess.run([sys.executable, "-m", "pytest", "-q", "."], cwd=repo, check=True, capture_output=True)
