"""Differences and checkpoints hold to the bytes, whatever the workspace's git settings and the model do."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxes.docker_sandbox import DockerSandbox

pytestmark = pytest.mark.docker


@pytest.fixture
def check(tmp_path: Path) -> Callable[[dict[str, bytes], bytes], dict[str, bytes]]:
    """Apply a patch to a clean checkout of the files; returns what it holds then."""

    def apply(files: dict[str, bytes], patch: bytes) -> dict[str, bytes]:
        folder = tmp_path / f"checkout{len(list(tmp_path.iterdir()))}"
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        folder.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "-q", folder], check=True)
        if patch:
            subprocess.run(["git", "-C", folder, "apply", "--whitespace=nowarn", "-"], input=patch, check=True)
        found = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.relative_to(folder).parts]
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}

    return apply


def test_line_endings_stay_whatever_the_attributes_say(
    start: Callable[..., DockerSandbox], check: Callable[[dict[str, bytes], bytes], dict[str, bytes]]
) -> None:
    files = {".gitattributes": b"* text=auto eol=lf\n*.x filter=lfs -diff\n", "v.txt": b"a\r\nb\r\n", "w.x": b"1\n"}
    sandbox = start(files)
    sandbox.run("git config --global diff.noprefix true; git config --global core.autocrlf true")
    assert sandbox.diff() == b""
    sandbox.write_bytes("v.txt", b"a\r\nB\r\n")
    sandbox.write_bytes("w.x", b"2\n")
    expected = {**files, "v.txt": b"a\r\nB\r\n", "w.x": b"2\n"}
    assert b"-b\r\n+B\r\n" in sandbox.diff()
    attributes = {".gitattributes": files.pop(".gitattributes")}  # git would convert while it applies the patch
    assert check(files, sandbox.diff()) | attributes == expected


def test_a_repository_inside_the_workspace_hides_nothing(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start({"sub/a.py": b"1\n"})
    sandbox.run("git init -q sub; echo 2 > sub/a.py; echo new > sub/b.py")
    assert all(part in sandbox.diff() for part in (b"+2\n", b"b/sub/b.py"))
    sandbox.run("cd sub && git add . && git -c user.name=a -c user.email=a@b commit -qm x")
    patch = sandbox.diff()
    assert b"Subproject" not in patch
    assert b"b/sub/b.py" in patch
    assert sandbox.run("git -C /workspace/sub log --oneline | wc -l").output == "1\n"


def test_unreadable_files_and_folders_hide_nothing(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start({"deep/a": b"1\n", "b": b"1\n"})
    token = sandbox.checkpoint()
    sandbox.run("echo 2 > deep/a; echo 2 > b; chmod 0 b deep; chmod 500 .")
    assert sandbox.diff().count(b"+2\n") == 2
    sandbox.run("chmod 0 deep b; chmod 500 .")
    sandbox.restore(token)
    assert sandbox.diff() == b""


def test_a_change_of_the_same_size_in_the_same_second_is_seen(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start({"a": b"1"})
    sandbox.run("printf 2 1<>a; touch -d '2020-01-01' a; printf 3 1<>a")
    assert b"+3\n" in sandbox.diff()


def test_a_commit_by_the_model_changes_nothing(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start({"a": b"1\n"})
    sandbox.run("git init -q; git add -A; git -c user.name=a -c user.email=a@b commit -qm x; echo 2 > a; git add a")
    before = sandbox.run("git diff --cached; git status --short").output
    assert b"-1\n+2\n" in sandbox.diff()
    assert sandbox.run("git diff --cached; git status --short").output == before


def test_restore_ends_what_still_runs_and_starts_a_new_shell(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start({"sub/a": b"1"})
    token = sandbox.checkpoint()
    sandbox.run("cd sub; X=1; (while :; do echo again > /workspace/late; sleep 0.01; done) & true")
    sandbox.restore(token)
    time.sleep(0.1)
    assert sandbox.list_files() == ["sub/a"]
    assert sandbox.run("pwd; echo [$X]; ls").output == "/workspace\n[]\nsub\n"


_NAME = st.text(st.sampled_from("ab \"'é\\$*-"), min_size=1, max_size=6).filter(lambda name: name.strip(" ") == name)
_TREE = st.dictionaries(_NAME | st.builds("{}/{}".format, st.just("dir"), _NAME), st.binary(max_size=60), max_size=5)


@pytest.fixture(scope="module")
def empty(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    with DockerSandbox.start(tmp_path_factory.mktemp("empty")) as opened:
        yield opened


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=_TREE, after=_TREE, executable=st.booleans())
def test_patches_round_trip(
    empty: DockerSandbox,
    check: Callable[[dict[str, bytes], bytes], dict[str, bytes]],
    before: dict[str, bytes],
    after: dict[str, bytes],
    executable: bool,
) -> None:
    for tree in (before, after):
        if tree is after:
            empty._history.begin()
        empty.run("find . -mindepth 1 -delete")
        for name, data in tree.items():
            empty.write_bytes(name, data)
        if executable and tree is after:
            empty.run("find . -type f -exec chmod +x {} +")
    assert check(before, empty.diff()) == after
