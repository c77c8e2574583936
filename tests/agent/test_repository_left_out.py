"""Repositories inside a repository: what is not copied is said, and a submodule's files are part of the copy."""

from __future__ import annotations

import subprocess
from pathlib import Path

from clover_agent.repository import apply_patch, copy_repository, diff_folders


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=u", "-c", "user.email=u@localhost", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def repository(folder: Path, **files: str) -> Path:
    folder.mkdir()
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first", "--allow-empty")
    return folder


def test_nested_repositories_are_named(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", a="1\n")
    outer = repository(tmp_path / "outer", b="2\n")
    git(outer, "submodule", "add", "-q", str(inner), "sub")
    git(outer, "submodule", "add", "-q", str(inner), "empty")
    git(outer, "commit", "-q", "-m", "modules")
    git(outer, "submodule", "deinit", "-q", "-f", "empty")
    repository(outer / "loose", c="3\n")
    copy = copy_repository(outer, tmp_path / "copy")
    assert sorted(copy.left_out) == ["empty", "loose"]
    assert (copy.folder / "sub" / "a").read_text() == "1\n"
    assert not (copy.folder / "loose").exists()


def test_a_change_in_a_submodule_can_be_applied(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", a="1\n")
    outer = repository(tmp_path / "outer", b="2\n")
    git(outer, "submodule", "add", "-q", str(inner), "sub")
    git(outer, "commit", "-q", "-m", "modules")
    copy = copy_repository(outer, tmp_path / "copy")
    (copy.folder / "sub" / "a").write_text("one\n")
    patch = diff_folders(copy.folder)
    assert b"+++ b/sub/a" in patch
    assert apply_patch(outer, patch) == ""
    assert (outer / "sub" / "a").read_text() == "one\n"


def test_a_file_that_became_a_folder_is_no_repository(tmp_path: Path) -> None:
    outer = repository(tmp_path / "outer", b="2\n")
    (outer / "b").unlink()
    (outer / "b").mkdir()
    (outer / "b" / "c").write_text("3\n")
    copy = copy_repository(outer, tmp_path / "copy")
    assert copy.left_out == ()
    assert (copy.folder / "b" / "c").read_text() == "3\n"
