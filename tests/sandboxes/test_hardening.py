"""What a command may not do, tried from inside; and what is left behind, which is nothing."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import docker
import docker.errors
import pytest

from sandboxes.client import connect, faults
from sandboxes.config import SandboxConfig
from sandboxes.docker_sandbox import DockerSandbox
from sandboxes.janitor import LABEL, _alive, owner, sweep
from sandboxes.protocol import SandboxError

pytestmark = pytest.mark.docker


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c \"import socket; socket.create_connection(('1.1.1.1', 53), 2)\"",
        "touch /etc/x",
        "touch /usr/bin/x",
        "echo 1 > /proc/sys/kernel/hostname",
        "echo 1 > /sys/kernel/mm/ksm/run",
        "mount -t tmpfs none /mnt",
        "chown 0 /workspace/a.py",
        "su -c id root",
        "ls /var/run/docker.sock",
        "echo c > /proc/sysrq-trigger",
        "echo x > /proc/sys/kernel/core_pattern",
        "mkdir /sys/fs/cgroup/x",
        "cat /proc/kcore",
        "unshare -r true",
        'python3 -c \'open("/proc/1/mem", "rb+")\'',
        "mount -o remount,rw /",
        "kill -9 1",
        "mknod /tmp/dev c 1 3",
        "chroot / true",
    ],
)
def test_is_refused(sandbox: DockerSandbox, command: str) -> None:
    assert sandbox.run(command, timeout=10).exit_code not in {0, None}


def test_commands_run_without_privileges(sandbox: DockerSandbox) -> None:
    assert sandbox.run("id -u").output == "1000\n"
    status = sandbox.run("cat /proc/self/status").output
    none = "0" * 16
    assert all(f"{name}:\t{none}" in status for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


def test_setuid_gives_nothing(sandbox: DockerSandbox) -> None:
    found = sandbox.run("find / -xdev -perm -4000 -type f 2>/dev/null").output.split()
    for program in found:
        sandbox.run(f"{program} -c 'touch /tmp/root' </dev/null", timeout=5)
    assert sandbox.run("stat -c %u /tmp/root").output != "0\n"


def test_a_setuid_shell_of_the_image_gives_nothing(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start(setup=("cp /bin/bash /rootbash; chmod 4755 /rootbash",), setup_network="none")
    try:
        assert sandbox.run("stat -c %a /rootbash; /rootbash -p -c 'id -u'").output == "4755\n1000\n"
    finally:
        sandbox.close()
        client = connect()
        client.images.remove(sandbox.image_id, force=True)


def test_two_sandboxes_do_not_see_each_other(start: Callable[..., DockerSandbox]) -> None:
    """Not even with a network: each one is on its own."""
    one, two = start(network="bridge"), start(network="bridge")
    serve = "import socket,time; s=socket.create_server(('', 8000)); time.sleep(60)"
    one.run(f'python3 -c "{serve}" & sleep 0.5')
    address = one.run("hostname -I || hostname -i").output.split()[0]
    reach = f"import socket; socket.create_connection(('{address}', 8000), 2); print('reached')"
    assert one.run(f'python3 -c "{reach}"').output == "reached\n"
    assert "reached" not in two.run(f'python3 -c "{reach}"', timeout=10).output


def test_the_processor_is_shared_out(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start(cpus=0.2)
    burn = "import time; e=time.time()+1.5\nwhile time.time()<e: pass\nprint(time.process_time())"
    assert float(sandbox.run(f"python3 -c '{burn}'").output) < 0.8


def test_only_memory_can_be_written(sandbox: DockerSandbox) -> None:
    mounts = [line.split() for line in sandbox.run("cat /proc/mounts").output.splitlines()]
    writable = {mount[1]: mount[2] for mount in mounts if "rw" in mount[3].split(",")}
    disk = {place: kind for place, kind in writable.items() if kind not in {"tmpfs", "proc", "devpts", "mqueue"}}
    assert disk == {}
    assert not [mount for mount in mounts if "docker.sock" in mount[1]]


def test_nothing_of_the_host_environment_comes_in(sandbox: DockerSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    assert "hunter2" not in sandbox.run("env").output


def test_a_full_disk_ends_the_command_only(sandbox: DockerSandbox) -> None:
    result = sandbox.run("head -c 200M /dev/zero > big")
    assert result.exit_code not in {0, None}
    assert "No space left" in result.output
    assert sandbox.run("rm -f big; echo fine").output == "fine\n"


def test_too_much_memory_ends_the_command_only(sandbox: DockerSandbox) -> None:
    assert sandbox.run("python3 -c 'bytearray(3 << 30)'", timeout=60).exit_code not in {0, None}
    assert sandbox.run("echo fine").output.endswith("fine\n")


def test_a_fork_bomb_is_contained(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start(pids=100)
    sandbox.run(":(){ :|:& };:", timeout=2)
    assert not sandbox.run("while :; do :; done", timeout=1).survivors  # the bomb goes on in the background till then
    assert sandbox.run("echo fine; ls -d /workspace").output == "fine\n/workspace\n"


def test_sleepers_that_take_every_process_number_are_ended(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start({"a": b"1"}, pids=60)
    sandbox.run("while sleep 300 & do :; done", timeout=1)
    assert sandbox.run("ls", timeout=20).output == "a\n"
    sandbox.run("for i in $(seq 40); do python3 -c 'import time; time.sleep(300)' & done 2>/dev/null", timeout=5)
    assert sandbox.read_bytes("a") == b"1"


def test_a_container_removed_from_outside_is_named(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start()
    docker.from_env().containers.get(sandbox.container_id).remove(force=True)
    with pytest.raises(SandboxError, match=r"container is gone|stopped"):
        sandbox.run("echo x", timeout=5)
    sandbox.close()


def test_a_missing_image_says_what_to_do(start: Callable[..., DockerSandbox]) -> None:
    with pytest.raises(SandboxError, match="clover-agent sandbox build"):
        start(image="localhost:9/no-such-image:1")


def test_a_runtime_that_the_engine_lacks_is_named(start: Callable[..., DockerSandbox]) -> None:
    with pytest.raises(SandboxError, match="no runtime 'no-such-runtime'"):
        start(runtime="no-such-runtime")


def test_no_engine_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    with pytest.raises(SandboxError, match="no Docker engine answers"):
        connect()


_HELD = """
import sys
from pathlib import Path
from sandboxes.config import SandboxConfig
from sandboxes.docker_sandbox import DockerSandbox
s = DockerSandbox.start(Path(sys.argv[1]), SandboxConfig(network=sys.argv[2]))
print(s.container_id, flush=True)
s.run("sleep 60")
"""


@pytest.mark.parametrize(
    ("number", "network"),
    [
        (signal.SIGINT, "none"),
        (signal.SIGTERM, "none"),
        (signal.SIGKILL, "bridge"),
    ],
)
def test_whatever_ends_the_process_ends_its_container(
    engine: None, tmp_path: Path, number: signal.Signals, network: str
) -> None:
    """At once, in the middle of a command; a network goes with the next start."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HELD, str(tmp_path), network],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    container = process.stdout.readline().strip()
    client = connect()
    sweep(client)
    name = client.api.inspect_container(container)["Name"].strip("/")  # it is there: its owner lives
    process.send_signal(number)
    process.wait()
    for _ in range(100):
        if not client.api.containers(all=True, filters={"id": container}):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the container outlives its process")
    sweep(client)
    assert not client.api.networks(names=[name])


def test_starts_and_stops_leave_the_engine_as_it_was(engine: None, tmp_path: Path) -> None:
    api = connect().api

    def everything() -> tuple[set[str], int, int]:
        ours = {c["Id"] for c in api.containers(all=True, filters={"label": f"{LABEL}={owner()}"})}
        return ours, len(api.volumes()["Volumes"] or []), len(api.networks())

    before = everything()
    for _ in range(5):
        with DockerSandbox.start(tmp_path) as sandbox:
            sandbox.run("true")
        sandbox.close()
    assert everything() == before


def test_owners_that_can_not_be_seen_are_left_alone() -> None:
    machine, boot, namespace, pid, started = owner().split(":")
    assert _alive(owner())
    assert _alive(f"another:{boot}:{namespace}:{pid}:{started}")
    assert _alive(f"{machine}:{boot}:1:{pid}:{started}")
    assert not _alive(f"{machine}:0:{namespace}:{pid}:{started}")
    assert not _alive(f"{machine}:{boot}:{namespace}:{pid}:1")
    assert not _alive("")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Error while fetching server API version: PermissionError(13, 'Permission denied')", "group `docker`"),
        ("Error while fetching server API version: FileNotFoundError(2, 'No such file')", "set DOCKER_HOST"),
    ],
)
def test_faults_of_the_connection_say_what_to_do(text: str, said: str) -> None:
    with pytest.raises(SandboxError, match=said), faults():
        raise docker.errors.DockerException(text)


def test_a_full_disk_of_the_engine_is_named() -> None:
    with pytest.raises(SandboxError, match="disk is full"), faults():
        raise docker.errors.APIError("500", explanation="write /var/lib/docker/x: no space left on device")


def test_an_image_without_a_shell_is_named(engine: None, tmp_path: Path) -> None:
    client = connect()
    before = len(client.containers.list(all=True, filters={"label": f"{LABEL}={owner()}"}))
    client.api.import_image_from_data(_tar_of_nothing(), repository="clover-agent-test-empty", tag="1")
    try:
        with pytest.raises(SandboxError, match=r"sleep|image"):
            DockerSandbox.start(tmp_path, SandboxConfig(image="clover-agent-test-empty:1"))
    finally:
        client.images.remove("clover-agent-test-empty:1", force=True)
    assert len(client.containers.list(all=True, filters={"label": f"{LABEL}={owner()}"})) == before


def _tar_of_nothing() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    return packed.getvalue()
