"""The demo's random bug."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from clover_agent.injection import LIBRARY, PACKAGE, InjectionError, copy_library, inject


def test_a_bug_is_drawn_again_until_it_is_noticed_and_only_that_one_stays(tmp_path: Path) -> None:
    copy_library(tmp_path / "lib")
    asked: list[tuple[str, bytes]] = []

    def third_time(path: str, content: bytes) -> bool:
        asked.append((path, content))
        assert (tmp_path / "lib" / path).read_bytes() == (LIBRARY / path).read_bytes()
        return len(asked) == 3

    bug = inject(tmp_path / "lib", random.Random(5), third_time)
    assert bug.draws == 3
    assert (bug.path, bug.mutation.source.encode()) == asked[-1]
    changed = [
        file.relative_to(LIBRARY).as_posix()
        for file in LIBRARY.rglob("*.py")
        if file.read_bytes() != (tmp_path / "lib" / file.relative_to(LIBRARY)).read_bytes()
    ]
    assert changed == [bug.path]


def test_the_seed_decides_and_seeds_differ(tmp_path: Path) -> None:
    bugs = []
    for seed in (1, 1, *range(2, 12)):
        folder = tmp_path / str(len(bugs))
        copy_library(folder)
        bugs.append(inject(folder, random.Random(seed), lambda path, content: True))
    assert bugs[0] == bugs[1]
    assert len({bug.mutation.source for bug in bugs}) >= 9
    assert all(bug.path.startswith(f"{PACKAGE}/") for bug in bugs)


def test_tests_that_notice_nothing_are_an_error(tmp_path: Path) -> None:
    copy_library(tmp_path / "lib")
    with pytest.raises(InjectionError, match="do its tests run"):
        inject(tmp_path / "lib", random.Random(0), lambda path, content: False)


def test_the_library_passes_its_own_tests(tmp_path: Path) -> None:
    copy_library(tmp_path / "lib")
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path / "lib", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
