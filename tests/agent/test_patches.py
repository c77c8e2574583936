"""Patches of random trees: whatever changed, the patch applies to a clean checkout and makes the very same tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from clover_agent.repository import apply_patch, commit_all, diff_folders

NAMES = st.text(st.sampled_from("ab .\"'é\\$*-\t\n[日"), min_size=1, max_size=5).filter(
    lambda name: name not in {".", ".."} and name.lower() != ".git"
)
CONTENT = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from(["a", "b", "é", "", "\t"]), max_size=6).map("\n".join).map(str.encode),
    st.lists(st.sampled_from(["a", "b"]), max_size=6).map("\r\n".join).map(str.encode),
)
FILE = st.tuples(st.just("file"), CONTENT, st.booleans())
LINK = st.tuples(st.just("link"), st.sampled_from([b"a", b"../x", b"/etc/passwd", "é b".encode()]), st.just(False))
TREES = st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), FILE | LINK, max_size=6)
Tree = dict[str, tuple[str, bytes, bool]]


def fill(folder: Path, tree: Tree) -> None:
    """Make a folder hold a tree, as far as its names go together."""
    for entry in folder.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for name, (kind, data, executable) in tree.items():
        place = folder / name
        parents = [folder.joinpath(*Path(name).parts[:depth]) for depth in range(1, len(Path(name).parts))]
        if os.path.lexists(place) or any(p.is_symlink() or (os.path.lexists(p) and not p.is_dir()) for p in parents):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            place.symlink_to(os.fsdecode(data))
        else:
            place.write_bytes(data)
            place.chmod(0o755 if executable else 0o644)


def held(folder: Path) -> Tree:
    """What a folder holds, git's own files left out."""
    found: Tree = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if name.split("/", maxsplit=1)[0] == ".git":
            continue
        if path.is_symlink():
            found[name] = ("link", os.fsencode(path.readlink()), False)
        elif path.is_file():
            found[name] = ("file", path.read_bytes(), os.access(path, os.X_OK) and bool(path.stat().st_mode & 0o100))
    return found


@settings(max_examples=25)
@given(before=TREES, after=TREES, meddle=st.sampled_from(["nothing", "stages", "unstages", "removes"]))
def test_patches_of_random_trees_round_trip(before: Tree, after: Tree, meddle: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        changed, clean = Path(temporary, "changed"), Path(temporary, "clean")
        for folder in (changed, clean):
            folder.mkdir()
            fill(folder, before)
            commit_all(folder)
        fill(changed, after)
        arguments = {
            "stages": ["add", "-A", "."],
            "unstages": ["reset", "-q"],
            "removes": ["rm", "-rfq", "--cached", "."],
        }
        if meddle in arguments:
            subprocess.run(["git", "-C", changed, *arguments[meddle]], check=False, capture_output=True)
        patch = diff_folders(changed)
        assert patch == b"" or patch.endswith(b"\n")
        if patch:
            subprocess.run(["git", "-C", clean, "apply", "--check", "-"], input=patch, check=True, capture_output=True)
        assert apply_patch(clean, patch) == ""
        assert held(clean) == held(changed)
