"""Copies of a user's repository: what is in them, and that the original stays as it was."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from clover_agent.errors import UsageError
from clover_agent.repository import (
    apply_patch,
    changed_files,
    check_repository,
    commit_all,
    copy_repository,
    diff_folders,
)


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=u", "-c", "user.email=u@localhost", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def state(folder: Path) -> dict[str, str]:
    """Every file below `folder`, `.git` included, with a hash of its content."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_symlink():
            found[str(file)] = str(file.readlink())
        elif file.is_file():
            found[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "kept.py").write_bytes(b"a = 1\r\n")
    (folder / "gone.py").write_text("b = 1\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "ü name.txt").write_text("c\n")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "forced.log").write_text("tracked although ignored\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("kept.py")
    git(folder, "add", "-A")
    git(folder, "add", "-f", "forced.log")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def files(folder: Path) -> set[str]:
    every = (file for file in folder.rglob("*") if file.is_file() or file.is_symlink())
    return {name for name in (file.relative_to(folder).as_posix() for file in every) if not name.startswith(".git/")}


CLEAN = {"kept.py", "gone.py", "sub/ü name.txt", ".gitignore", "forced.log", "run.sh", "link"}


def test_a_clean_copy_has_the_files_and_no_history(repo: Path, tmp_path: Path) -> None:
    (repo / "noise.log").write_text("ignored\n")
    before = state(repo)
    copy = copy_repository(repo, tmp_path / "copy")
    assert files(copy.folder) == CLEAN
    assert (copy.folder / "kept.py").read_bytes() == b"a = 1\r\n"
    assert os.access(copy.folder / "run.sh", os.X_OK)
    assert (copy.folder / "link").readlink() == Path("kept.py")
    assert copy.dirty is False
    assert git(copy.folder, "log", "--all", "--format=%s") == "base\n"
    assert git(copy.folder, "remote") == ""
    assert git(copy.folder, "status", "--porcelain") == ""
    assert state(repo) == before


def test_uncommitted_work_is_part_of_the_copy_and_untouched(repo: Path, tmp_path: Path) -> None:
    (repo / "kept.py").write_text("a = 2\n")
    (repo / "gone.py").unlink()
    (repo / "new.py").write_text("d = 1\n")
    (repo / "staged.py").write_text("e = 1\n")
    git(repo, "add", "staged.py")
    before = state(repo)
    copy = copy_repository(repo, tmp_path / "copy")
    assert files(copy.folder) == CLEAN - {"gone.py"} | {"new.py", "staged.py"}
    assert (copy.folder / "kept.py").read_text() == "a = 2\n"
    assert copy.dirty is True
    assert state(repo) == before


def test_the_tree_hash_names_the_content(repo: Path, tmp_path: Path) -> None:
    first = copy_repository(repo, tmp_path / "1").base
    assert copy_repository(repo, tmp_path / "2").base == first
    (repo / "kept.py").write_text("a = 3\n")
    assert copy_repository(repo, tmp_path / "3").base != first


def test_hooks_and_attributes_of_the_user_do_nothing(repo: Path, tmp_path: Path) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\nexit 1\n")
    hook.chmod(0o755)
    (repo / ".gitattributes").write_text("*.py text eol=lf\n")
    copy = copy_repository(repo, tmp_path / "copy")
    assert not (tmp_path / "hooked").exists()
    assert (copy.folder / "kept.py").read_bytes() == b"a = 1\r\n"


def test_a_program_named_in_the_repositorys_configuration_does_not_run(repo: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(program))
    copy_repository(repo, tmp_path / "copy")
    assert not (tmp_path / "ran").exists()


def test_filters_of_the_user_do_not_change_the_base(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text('[filter "x"]\n\tclean = tr c d\n')
    (repo / ".gitattributes").write_text("*.txt filter=x\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    copy = copy_repository(repo, tmp_path / "copy")
    assert git(copy.folder, "show", "HEAD:sub/ü name.txt") == "c\n"


def test_a_folder_replaced_by_a_link_is_copied_as_the_link(repo: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (repo / "sub").rename(outside)
    (repo / "sub").symlink_to(outside)
    copy = copy_repository(repo, tmp_path / "copy")
    assert (copy.folder / "sub").readlink() == outside


def test_a_patch_keeps_line_ends_that_attributes_would_change(repo: Path, tmp_path: Path) -> None:
    (repo / ".gitattributes").write_text("*.py text eol=lf\n")
    (repo / "kept.py").write_bytes(b"a = 1\r\nb = 1\r\n")
    copy = copy_repository(repo, tmp_path / "copy").folder
    (copy / "kept.py").write_bytes(b"a = 1\r\nb = 2\r\n")
    assert apply_patch(repo, diff_folders(copy)) == ""
    assert (repo / "kept.py").read_bytes() == b"a = 1\r\nb = 2\r\n"


def test_submodules_are_copied_as_files(repo: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "in.py").write_text("x = 1\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "in")
    git(repo, "submodule", "add", "-q", str(inner), "vendored")
    git(repo, "commit", "-q", "-m", "sub")
    copy = copy_repository(repo, tmp_path / "copy")
    assert (copy.folder / "vendored" / "in.py").read_text() == "x = 1\n"
    (copy.folder / "vendored" / "in.py").write_text("x = 2\n")
    assert b"vendored/in.py" in diff_folders(copy.folder)


def test_what_is_no_repository_is_one_clear_line(repo: Path, tmp_path: Path) -> None:
    empty, bare, fresh = tmp_path / "empty", tmp_path / "bare", tmp_path / "fresh"
    for folder in (empty, bare, fresh):
        folder.mkdir()
    git(bare, "init", "-q", "--bare")
    git(fresh, "init", "-q")
    for path, words in (
        (tmp_path / "nowhere", "is not a folder"),
        (repo / "kept.py", "is not a folder"),
        (empty, "is not a git repository"),
        (bare, "is a bare repository"),
        (fresh, "has no commit yet"),
        (repo / "sub", f"lies inside the repository {repo}"),
    ):
        with pytest.raises(UsageError, match=words) as fault:
            check_repository(path)
        assert "\n" not in str(fault.value)
    assert check_repository(repo) == repo


def test_patches_go_out_and_in_again(repo: Path, tmp_path: Path) -> None:
    copy = copy_repository(repo, tmp_path / "copy").folder
    (copy / "kept.py").write_bytes(b"a = 5\r\n")
    (copy / "gone.py").unlink()
    (copy / "added.bin").write_bytes(bytes(range(256)))
    (copy / "empty.txt").write_text("")
    (copy / "noise.log").write_text("ignored files are no part of a patch\n")
    patch = diff_folders(copy)
    assert set(changed_files(repo, patch)) == {"kept.py", "gone.py", "added.bin", "empty.txt"}
    assert apply_patch(repo, patch) == ""
    assert (repo / "kept.py").read_bytes() == b"a = 5\r\n"
    assert (repo / "added.bin").read_bytes() == bytes(range(256))
    assert not (repo / "gone.py").exists()
    before = state(repo)
    assert "does not" in apply_patch(repo, patch) or "already exists" in apply_patch(repo, patch)
    assert state(repo) == before


def test_files_can_be_left_out_of_a_patch_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in ("a[1].py", "a1.py", "b*.py"):
        (folder / name).write_text("x\n")
    commit_all(folder)
    for name in ("a[1].py", "a1.py", "b*.py"):
        (folder / name).write_text("y\n")
    patch = diff_folders(folder)
    git(folder, "reset", "-q", "--hard")
    assert apply_patch(folder, patch, exclude=["a[1].py", "b*.py"]) == ""
    assert [(folder / name).read_text() for name in ("a[1].py", "a1.py", "b*.py")] == ["x\n", "y\n", "x\n"]


def test_an_empty_patch_applies(repo: Path) -> None:
    assert apply_patch(repo, b"") == ""
    assert apply_patch(repo, b"\n") == ""
