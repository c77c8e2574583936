"""A repository in odd surroundings: a home that can't be looked at, a name with a line end, a full disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clover_agent.errors import UsageError
from clover_agent.repository import check_repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make(tmp_path / "repo")


def make(folder: Path) -> Path:
    folder.mkdir()
    (folder / "big.txt").write_bytes(b"x" * 300_000)
    git = ["git", "-C", str(folder), "-c", "user.name=u", "-c", "user.email=u@localhost"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("home", ["/" + "x" * 5000, "relative", ""])
def test_any_home_will_do(repo: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    assert check_repository(repo) == repo


def test_a_name_with_a_line_end(tmp_path: Path) -> None:
    repo = make(tmp_path / "two\nlines\n")
    assert check_repository(repo) == repo


def test_a_path_that_no_folder_can_have(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        check_repository(tmp_path / ("x" * 300))


def test_a_full_disk_is_no_wrong_use(repo: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    script = (
        "import resource, sys\nfrom clover_agent.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"sys.exit(main(['fix', {str(repo)!r}, '--test', 'x']))\n"
    )
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "CLOVER_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=env,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 75, done.stderr
    assert "free space" in done.stderr
    assert len(done.stderr.splitlines()) == 1
