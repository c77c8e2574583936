"""Files that a patch can't use to change how tests run."""

from __future__ import annotations

from pathlib import Path

import pytest

from clover_agent.protected import protected_files


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in (
        "pkg/__init__.py",
        "src/lib/__init__.py",
        "_pytest/__init__.py",
        "queue.py",
        "plain/x.py",
        "tests/t.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "tests/test_a.py",
        "tests/data/expected.json",
        "pkg/tests/helper.txt",
        "test_new.py",
        "pkg/conftest.py",
        "pytest.ini",
        "setup.cfg",
        "pyproject.toml",
        "tox.ini",
        "Makefile",
        "sitecustomize.py",
        "src/usercustomize.py",
        "x.pth",
        "pytest.py",
        "pluggy/__init__.py",
        "src/_pytest/main.py",
        "json.py",
        "src/unittest/__init__.py",
        "plain/typing.py",
    ],
)
def test_protected(base: Path, name: str) -> None:
    assert protected_files(base, [name]) == [name]


@pytest.mark.parametrize(
    "name",
    [
        "pkg/core.py",
        "pkg/json.py",  # inside of a package
        "src/lib/unittest.py",
        "_pytest/main.py",  # the project is pytest itself
        "queue.py",  # the base has it
        "plain/mine.py",
        "README.md",
        "json",  # no module
    ],
)
def test_free(base: Path, name: str) -> None:
    assert protected_files(base, [name]) == []
