"""A workspace in a Docker container without network, capabilities or a writable root.

The repository is copied in and patches are copied out; nothing of the host is mounted. All writable places are
memory file systems with a size, so a full disk is the container's own. Two shells run inside as an unprivileged user:
one for commands, one for the sandbox's own work on files.
"""

from __future__ import annotations

import atexit
import io
import secrets
import shlex
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandboxes.client import connect, faults
from sandboxes.config import SandboxConfig
from sandboxes.files import Files
from sandboxes.image import USER
from sandboxes.janitor import LABEL, owner, sweep
from sandboxes.output import Head
from sandboxes.protocol import CommandResult, SandboxError
from sandboxes.shell import Shell

if TYPE_CHECKING:
    from docker import DockerClient

WORKSPACE = "/workspace"
PRIVATE = "/clover"
HEAD_BYTES, TAIL_BYTES = 16_000, 16_000
MAX_SURVIVORS = 64
_INIT_USER = "65534:65534"  # not the commands' user, so that killing all of theirs leaves the container alone
_ENVIRONMENT = {
    "HOME": "/home/agent",
    "USER": "agent",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "NO_COLOR": "1",
}


class DockerSandbox(Files):
    """The product's sandbox; see `sandboxes.protocol.Sandbox`."""

    def __init__(self, client: DockerClient, container_id: str, image_id: str, config: SandboxConfig) -> None:
        """Use `DockerSandbox.start`."""
        environment = {**_ENVIRONMENT, **config.environment}
        self._client = client
        self._id = container_id
        self._image_id = image_id
        self._shell = Shell(client, container_id, user=USER, folder=WORKSPACE, environment=environment)
        control = Shell(client, container_id, user=USER, folder="/", environment=_ENVIRONMENT)
        super().__init__(control, WORKSPACE, PRIVATE)
        self._closed = False
        atexit.register(self.close)

    @classmethod
    def start(cls, folder: Path, config: SandboxConfig | None = None) -> DockerSandbox:
        """A container with a copy of `folder` as its workspace. Raises SandboxError."""
        config = config or SandboxConfig()
        client = connect()
        sweep(client)
        with faults():
            image = client.images.get(config.image)
            container = client.containers.create(
                str(image.id),
                ["sleep", "infinity"],
                name=f"clover-agent-{secrets.token_hex(6)}",
                labels={LABEL: owner()},
                init=True,
                user=_INIT_USER,
                working_dir="/",
                entrypoint=[],
                network_mode=config.network,
                read_only=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                mem_limit=config.memory,
                memswap_limit=config.memory,
                nano_cpus=int(config.cpus * 1e9),
                pids_limit=config.pids,
                tmpfs={
                    WORKSPACE: f"exec,uid=1000,gid=1000,mode=755,size={config.workspace}",
                    "/home/agent": f"exec,uid=1000,gid=1000,mode=755,size={config.scratch}",
                    PRIVATE: f"exec,uid=1000,gid=1000,mode=700,size={config.workspace}",
                    "/tmp": f"exec,mode=1777,size={config.scratch}",
                },
            )
            container.start()
        sandbox = cls(client, str(container.id), str(image.id), config)
        try:
            sandbox._copy_in(folder)
            sandbox.begin()
        except BaseException:
            sandbox.close()
            raise
        return sandbox

    @property
    def workspace(self) -> str:
        """Path of the workspace inside the container."""
        return WORKSPACE

    @property
    def image_id(self) -> str:
        """Content id of the image."""
        return self._image_id

    def run(self, command: str, *, timeout: float = 60.0, env: Mapping[str, str] | None = None) -> CommandResult:
        """See the protocol. Working folder, variables and functions last; after a limit, the folder does."""
        started = time.monotonic()
        output = Head(HEAD_BYTES, TAIL_BYTES)
        result = self._shell.run(command, output, timeout, env=env, ignore=(self._control.pid,))
        if len(result.survivors) > MAX_SURVIVORS:  # a fork bomb would starve every later command
            self._shell.kill()
        if result.timed_out or result.exit_code in {137, 143}:
            self._assert_running()
        return CommandResult(
            exit_code=result.exit_code,
            output=output.text(),
            timed_out=result.timed_out,
            omitted_bytes=output.omitted,
            seconds=time.monotonic() - started,
            survivors=result.survivors,
        )

    def close(self) -> None:
        """Remove the container."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._shell.close()
        self._control.close()
        import docker.errors

        with faults():
            try:
                self._client.api.remove_container(self._id, force=True, v=True)
            except docker.errors.NotFound:
                pass
            except docker.errors.APIError as fault:
                if fault.status_code != 409:  # its removal is under way already
                    raise
        self._client.close()

    def __enter__(self) -> DockerSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _copy_in(self, folder: Path) -> None:
        """Unpack `folder` into the workspace as the commands' user; `.git` folders below the top are left out."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for child in sorted(folder.iterdir()):
                tar.add(child, child.name, filter=_portable)
        self.feed(f"tar -xf - -C {shlex.quote(WORKSPACE)}", packed.getvalue())

    def feed(self, command: str, data: bytes) -> None:
        """Run a command with `data` as its standard input. Raises SandboxError when it fails."""
        api = self._client.api
        with faults():
            made = api.exec_create(
                self._id, ["/bin/sh", "-c", command], stdin=True, user=USER, environment=_ENVIRONMENT
            )
            attached = api.exec_start(made["Id"], socket=True)
            stream: Any = getattr(attached, "_sock", attached)
            stream.setblocking(True)
            stream.sendall(data)
            stream.shutdown(1)  # SHUT_WR
            said = b""
            while piece := stream.recv(1 << 16):
                said = (said + piece)[-2000:]
            stream.close()
            attached.close()
            status = api.exec_inspect(made["Id"])["ExitCode"]
        if status != 0:
            text = said.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise SandboxError(f"copying into the sandbox failed with status {status}: {' '.join(text)}")

    def _assert_running(self) -> None:
        with faults():
            state = self._client.api.inspect_container(self._id)["State"]
        if not state["Running"]:
            reason = "out of memory" if state.get("OOMKilled") else f"status {state.get('ExitCode')}"
            raise SandboxError(f"the sandbox's container has stopped ({reason}): start again")


def _portable(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "/.git/" in f"/{member.name}/"[1:] or member.isdev():
        return None
    member.uid = member.gid = 1000
    member.uname = member.gname = "agent"
    return member
