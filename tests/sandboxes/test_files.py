"""Files of the workspace: bytes, paths, checkpoints, differences."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandboxes.docker_sandbox import DockerSandbox
from sandboxes.protocol import SandboxError, WorkspacePathError

pytestmark = pytest.mark.docker


def test_bytes_come_and_go_unchanged(sandbox: DockerSandbox) -> None:
    data = bytes(range(256)) * 50 + b"\r\n no end"
    sandbox.write_bytes("new/folder/data.bin", data)
    assert sandbox.read_bytes("new/folder/data.bin") == data
    assert sandbox.read_bytes("/workspace/a.py") == b"x = 1\r\n"
    assert "new/folder/data.bin" in sandbox.list_files()


def test_a_write_keeps_the_mode(sandbox: DockerSandbox) -> None:
    sandbox.write_bytes("run.sh", b"echo 1")
    sandbox.run("chmod 750 run.sh")
    sandbox.write_bytes("run.sh", b"echo 2")
    assert sandbox.run("stat -c %a run.sh").output == "750\n"


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "~/x", "a\0b", "", "\ud800", "x" * 300, ".git/config", "sub/../../etc/passwd"]
)
def test_paths_outside_are_refused(sandbox: DockerSandbox, path: str) -> None:
    for use in (sandbox.read_bytes, lambda p: sandbox.write_bytes(p, b"x")):
        with pytest.raises(WorkspacePathError):
            use(path)


def test_links_are_followed_inside_and_refused_outside(sandbox: DockerSandbox) -> None:
    sandbox.run("ln -sf /etc/passwd out; ln -sfn /etc outdir; ln -sf sub/b.txt in; ln -sf nowhere dangling")
    for path in ("out", "outdir/passwd", "outdir/new"):
        with pytest.raises(WorkspacePathError):
            sandbox.read_bytes(path)
        with pytest.raises(WorkspacePathError):
            sandbox.write_bytes(path, b"x")
    sandbox.write_bytes("in", b"three")
    assert sandbox.run("readlink in; cat sub/b.txt").output == "sub/b.txt\nthree"
    with pytest.raises(FileNotFoundError):
        sandbox.read_bytes("dangling")
    sandbox.write_bytes("sub/b.txt", b"two")


def test_what_is_not_a_file(sandbox: DockerSandbox) -> None:
    with pytest.raises(FileNotFoundError):
        sandbox.read_bytes("absent.txt")
    with pytest.raises(IsADirectoryError):
        sandbox.read_bytes("sub")
    with pytest.raises(IsADirectoryError):
        sandbox.write_bytes("sub", b"x")
    with pytest.raises(WorkspacePathError):
        sandbox.write_bytes("a.py/below", b"x")


@pytest.mark.parametrize(
    "make", ["mkfifo", "mknod -m 644 {} p #", "python3 -c 'import socket,sys; socket.socket(1).bind(sys.argv[1])'"]
)
def test_a_special_file_is_refused_at_once(sandbox: DockerSandbox, make: str) -> None:
    assert sandbox.run(f"rm -f odd; {make.replace('{}', 'odd')} odd").exit_code == 0
    for use in (sandbox.read_bytes, lambda p: sandbox.write_bytes(p, b"x")):
        with pytest.raises(WorkspacePathError, match="no regular file"):
            use("odd")
    sandbox.run("rm odd")


def test_a_loop_of_links_is_absent(sandbox: DockerSandbox) -> None:
    sandbox.run("ln -sfn loop loop")
    with pytest.raises((FileNotFoundError, WorkspacePathError)):
        sandbox.read_bytes("loop")
    sandbox.run("rm loop")


def test_odd_names(sandbox: DockerSandbox) -> None:
    for name in ("-x", "a b", "it's", "line\nend", "end\n", "$HOME", "*", "é", "\udcff"):
        sandbox.write_bytes(f"odd/{name}", name.encode("utf-8", "surrogateescape"))
        assert sandbox.read_bytes(f"odd/{name}") == name.encode("utf-8", "surrogateescape")
        assert f"odd/{name}" in sandbox.list_files("odd")
    sandbox.run("rm -r odd")


def test_a_full_workspace_is_named_and_leaves_the_file(sandbox: DockerSandbox) -> None:
    before = sandbox.read_bytes("sub/b.txt")
    with pytest.raises(SandboxError, match="full"):
        sandbox.write_bytes("sub/b.txt", bytes(80 << 20))
    assert sandbox.read_bytes("sub/b.txt") == before
    assert not [name for name in sandbox.list_files() if "draft" in name]


def test_private_files_are_outside_the_workspace(sandbox: DockerSandbox) -> None:
    path = sandbox.put_private("tool/x.py", b"print(40 + 2)")
    assert sandbox.run(f"python3 {path}").output == "42\n"
    assert sandbox.read_private(path) == b"print(40 + 2)"
    assert sandbox.read_private("/tmp/absent") is None
    assert not any("x.py" in name for name in sandbox.list_files())


def test_restore_brings_everything_back(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start({"keep.txt": b"1", "gone.txt": b"2", ".gitignore": b"ignored\n", "ignored": b"3"})
    token = sandbox.checkpoint()
    sandbox.run("rm gone.txt; echo changed > keep.txt; echo new > new.txt; echo x > ignored; mkdir deep; touch .hidden")
    sandbox.restore(token)
    assert sandbox.list_files() == [".gitignore", "gone.txt", "ignored", "keep.txt"]
    assert (sandbox.read_bytes("keep.txt"), sandbox.read_bytes("ignored")) == (b"1", b"3")
    with pytest.raises(SandboxError):
        sandbox.restore("0" * 16)


def test_diff_holds_changes_and_new_files_but_no_build_output(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start({"code.py": b"a = 1\r\nb = 2", "old.txt": b"x\n", ".gitignore": b"*.log\n"})
    assert sandbox.diff() == b""
    before = sandbox.tree()
    sandbox.write_bytes("code.py", b"a = 1\r\nb = 3")
    sandbox.run("rm old.txt; echo n > new.txt; echo l > x.log; mkdir -p p/__pycache__; echo c > p/__pycache__/m.pyc")
    sandbox.run("mkdir -p build/lib x.egg-info; touch .coverage build/lib/code.py x.egg-info/PKG-INFO")
    patch = sandbox.diff()
    assert b"-b = 2\n\\ No newline" in patch
    assert all(name in patch for name in (b"b/new.txt", b"a/old.txt"))
    assert not any(name in patch for name in (b"x.log", b"pycache", b"build/lib", b".coverage", b"egg-info"))
    assert sandbox.tree() != before
    assert sandbox.diff() == patch
