"""Edits taken back, files that changed behind the model's back, and files that are no text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.folder_sandbox import FolderSandbox
from tools.registry import Registry, standard_tools

DOS = b"\xef\xbb\xbfa\r\nb\xe9\r\n\r\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "dos.txt").write_bytes(DOS)
    return tmp_path


@pytest.fixture
def registry() -> Registry:
    return Registry(standard_tools("true"))


def test_edits_are_taken_back_one_by_one_to_the_byte(repo: Path, registry: Registry) -> None:
    sandbox = FolderSandbox(repo)
    registry.run("str_replace", {"path": "dos.txt", "old_str": "a", "new_str": "A"}, sandbox)
    between = (repo / "dos.txt").read_bytes()
    registry.run("insert", {"path": "dos.txt", "line": 1, "text": "new"}, sandbox)
    assert b"new\r\n" in (repo / "dos.txt").read_bytes()
    undone = registry.run("undo", {"path": "./dos.txt"}, sandbox)
    assert (undone.text, undone.changed) == ("Edited dos.txt\n@@ -2 +1,0 @@\n-new", ("dos.txt",))
    assert (repo / "dos.txt").read_bytes() == between
    registry.run("undo", {"path": "dos.txt"}, sandbox)
    assert (repo / "dos.txt").read_bytes() == DOS
    nothing = registry.run("undo", {"path": "dos.txt"}, sandbox)
    assert nothing.is_error
    assert "no change of dos.txt to take back" in nothing.text


def test_a_created_file_goes_and_an_overwritten_one_comes_back(repo: Path, registry: Registry) -> None:
    sandbox = FolderSandbox(repo)
    registry.run("create", {"path": "it's new", "content": "x"}, sandbox)
    assert registry.run("undo", {"path": "it's new"}, sandbox).text.startswith("Removed it's new")
    assert not (repo / "it's new").exists()
    refused = registry.run("create", {"path": "dos.txt", "content": "x"}, sandbox)
    assert "exists already" in refused.text
    overwritten = registry.run("create", {"path": "dos.txt", "content": "x\n", "overwrite": True}, sandbox)
    assert overwritten.changed == ("dos.txt",)
    assert (repo / "dos.txt").read_bytes() == b"x\n"
    registry.run("undo", {"path": "dos.txt"}, sandbox)
    assert (repo / "dos.txt").read_bytes() == DOS


def test_what_others_changed_is_not_taken_back(repo: Path, registry: Registry) -> None:
    sandbox = FolderSandbox(repo)
    registry.run("str_replace", {"path": "dos.txt", "old_str": "a", "new_str": "A"}, sandbox)
    (repo / "dos.txt").write_bytes(b"theirs")
    assert "has changed since its last edit" in registry.run("undo", {"path": "dos.txt"}, sandbox).text
    assert (repo / "dos.txt").read_bytes() == b"theirs"
    (repo / "dos.txt").unlink()
    assert registry.run("undo", {"path": "dos.txt"}, sandbox).is_error


def test_a_change_since_the_last_view_is_reported(repo: Path, registry: Registry) -> None:
    sandbox = FolderSandbox(repo)
    registry.run("view", {"path": "dos.txt"}, sandbox)
    (repo / "dos.txt").write_bytes(b"first\n" + DOS[3:])
    inserted = registry.run("insert", {"path": "dos.txt", "line": 1, "text": "new"}, sandbox)
    assert inserted.is_error
    assert "has changed since it was last shown, its lines may have moved: view it again" in inserted.text
    replaced = registry.run("str_replace", {"path": "dos.txt", "old_str": "a", "new_str": "A"}, sandbox)
    assert replaced.text.endswith("\n[dos.txt had changed since it was last shown]")
    again = registry.run("insert", {"path": "dos.txt", "line": 1, "text": "new"}, sandbox)
    assert "changed since" not in again.text


def test_going_back_to_what_was_seen_is_no_news(repo: Path, registry: Registry) -> None:
    sandbox = FolderSandbox(repo)
    token = sandbox.checkpoint()
    registry.run("view", {"path": "dos.txt"}, sandbox)
    registry.run("str_replace", {"path": "dos.txt", "old_str": "a", "new_str": "A"}, sandbox)
    sandbox.restore(token)
    assert "changed since" not in registry.run("insert", {"path": "dos.txt", "line": 1, "text": "n"}, sandbox).text


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "a PNG image of 10 bytes"),
        (b"\x7fELF\x02\0", "an ELF program or library of 6 bytes"),
        ("x = 1\n".encode("utf-16"), r"text in UTF-16 \(little-endian\) of 14 bytes"),
        (b"\0\1\2", "a binary file of unknown kind of 3 bytes"),
        (b"\x1f\x8b\x08\xff", "gzip data of 4 bytes"),
    ],
)
def test_binary_files_are_described_and_not_edited(repo: Path, registry: Registry, data: bytes, kind: str) -> None:
    (repo / "b").write_bytes(data)
    sandbox = FolderSandbox(repo)
    shown = registry.run("view", {"path": "b"}, sandbox)
    assert not shown.is_error
    assert re.search(kind, shown.text)
    edited = registry.run("str_replace", {"path": "b", "old_str": "x", "new_str": "y"}, sandbox)
    assert edited.is_error
    assert "no text file" in edited.text
    assert (repo / "b").read_bytes() == data


def test_text_that_only_begins_like_something_else_is_text(repo: Path, registry: Registry) -> None:
    (repo / "t").write_text("RIFF raff\nBZh\n")
    assert registry.run("view", {"path": "t"}, FolderSandbox(repo)).text == "1\tRIFF raff\n2\tBZh"


def test_a_long_file_is_seen_by_range(repo: Path, registry: Registry) -> None:
    (repo / "long").write_text("".join(f"row {n}\n" for n in range(1, 200_001)))
    seen = registry.run("view", {"path": "long", "view_range": [199_999, -1]}, FolderSandbox(repo))
    assert seen.text == "199999\trow 199999\n200000\trow 200000"
