"""Settings of a sandbox: what is refused, and that what is set holds inside."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxes.config import Mount, SandboxConfig
from sandboxes.docker_sandbox import DockerSandbox
from sandboxes.protocol import SandboxError


@pytest.mark.docker
def test_mounts_can_be_read_and_not_written(start: Callable[..., DockerSandbox], tmp_path: Path) -> None:
    data = tmp_path / "a:b data"
    data.mkdir(mode=0o777)
    data.chmod(0o777)
    tmp_path.chmod(0o755)
    (data / "x").write_text("given")
    sandbox = start(mounts=(Mount(data, "/data"),))
    assert sandbox.run("cat /data/x").output == "given"
    assert sandbox.run("echo 1 > /data/y").exit_code != 0
    assert not (data / "y").exists()


@pytest.mark.docker
def test_a_mount_of_nothing_is_named(start: Callable[..., DockerSandbox], tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="does not exist"):
        start(mounts=(Mount(tmp_path / "absent", "/data"),))


@pytest.mark.docker
def test_variables_are_passed_by_name_only(
    start: Callable[..., DockerSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WANTED", "a b"), ("SECRET_TOKEN", "hunter2"), ("BOTH", "host")):
        monkeypatch.setenv(name, value)
    sandbox = start(pass_environment=("WANTED", "ABSENT", "BOTH"), environment={"BOTH": "given"})
    assert sandbox.run('echo "$WANTED $BOTH ${ABSENT-none}"; env').output.startswith("a b given none\n")
    assert "hunter2" not in sandbox.run("env; cat /proc/1/environ").output


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("/", "/host"),
        ("/proc/1", "/data"),
        ("/var/run", "/data"),
        ("relative", "/data"),
        ("/usr", "data"),
        ("/usr", "/workspace/x"),
        ("/usr", "/clover"),
        ("/usr", "/a/../proc"),
        ("/usr", "/"),
    ],
)
def test_mounts_that_would_open_the_machine_are_refused(source: str, target: str) -> None:
    with pytest.raises(ValueError, match="mount"):
        Mount(Path(source), target)


def test_a_socket_is_not_mounted(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        (tmp_path / "link").symlink_to(tmp_path / "s")
        with pytest.raises(ValueError, match="not mounted"):
            Mount(tmp_path / "link", "/run/docker.sock")


def test_mounts_are_read_from_text(tmp_path: Path) -> None:
    assert Mount.parse(f"{tmp_path}/a:b:/data") == Mount(tmp_path / "a:b", "/data")
    for text in ("", "/data", ":/data"):
        with pytest.raises(ValueError, match="SOURCE:TARGET"):
            Mount.parse(text)


@pytest.mark.parametrize(
    "wrong",
    [{"network": "host"}, {"memory": 0}, {"cpus": -1.0}, {"environment": {"A B": ""}}, {"pass_environment": ("1",)}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"network|limits|variable"):
        SandboxConfig(**wrong)  # type: ignore[arg-type]
