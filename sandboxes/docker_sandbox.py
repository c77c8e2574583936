"""A workspace in a Docker container without network, capabilities or a writable root.

The repository is copied in and patches are copied out; nothing of the host is mounted. All writable places are
memory file systems with a size, so a full disk is the container's own. Two shells run inside as an unprivileged user:
one for commands, one for the sandbox's own work on files.
"""

from __future__ import annotations

import atexit
import contextlib
import mmap
import platform
import secrets
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sandboxes.client import connect, faults
from sandboxes.config import SandboxConfig
from sandboxes.control import MAX_OUTPUT, Control
from sandboxes.files import Files
from sandboxes.history import History
from sandboxes.image import USER
from sandboxes.janitor import LABEL, owner, sweep
from sandboxes.output import Head
from sandboxes.protocol import CommandResult, SandboxError
from sandboxes.shell import Shell

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.types import HostConfig

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


class DockerSandbox:
    """The product's sandbox; see `sandboxes.protocol.Sandbox`."""

    def __init__(self, client: DockerClient, container_id: str, image_id: str, config: SandboxConfig) -> None:
        """Use `DockerSandbox.start`."""
        environment = {**_ENVIRONMENT, **config.environment}
        self._client = client
        self._id = container_id
        self._image_id = image_id
        self._shell = Shell(client, container_id, user=USER, folder=WORKSPACE, environment=environment)
        self._control = Control(Shell(client, container_id, user=USER, folder="/", environment=_ENVIRONMENT))
        self._files = Files(self._control, WORKSPACE, PRIVATE)
        self._history = History(self._control, WORKSPACE, PRIVATE)
        self._closed = False
        atexit.register(self._close_quietly)

    @classmethod
    def start(cls, folder: Path, config: SandboxConfig | None = None) -> DockerSandbox:
        """A container with a copy of `folder` as its workspace. Raises SandboxError."""
        config = config or SandboxConfig()
        client = connect()
        sweep(client)
        with faults():
            image = client.images.get(config.image)
            container = client.api.create_container(
                str(image.id),
                ["infinity"],
                entrypoint=["sleep"],
                name=f"clover-agent-{secrets.token_hex(6)}",
                labels={LABEL: owner()},
                user=_INIT_USER,
                working_dir="/",
                environment=_ENVIRONMENT,
                host_config=_host_config(client, config),
            )
        sandbox = cls(client, str(container["Id"]), str(image.id), config)
        try:
            with faults():
                client.api.start(sandbox._id)
            sandbox._copy_in(folder)
            sandbox._history.begin()
        except SandboxError as fault:
            with sandbox:  # closes it
                sandbox._assert_running(f"{fault}; the image {config.image} must fit this {platform.machine()} machine")
                raise
        except BaseException:
            sandbox._close_quietly()
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
        if fault := _unspeakable(command):
            return CommandResult(exit_code=126, output=f"{fault}\n")
        started = time.monotonic()
        output = Head(HEAD_BYTES, TAIL_BYTES)
        try:
            result = self._shell.run(command, output, timeout, env=env, ignore=(self._control.pid,))
        except BaseException:  # an interrupt must not leave the command running
            with contextlib.suppress(Exception):
                self._control.kill_others()
            raise
        survivors = result.survivors
        if result.died:
            self._assert_running()
            survivors = self._control.survivors()
        if result.timed_out or len(survivors) > MAX_SURVIVORS:  # a fork bomb would starve every later command
            self._control.kill_others()
            self._shell.drop()
            survivors = ()
        return CommandResult(
            exit_code=result.exit_code,
            output=output.text(),
            timed_out=result.timed_out,
            omitted_bytes=output.omitted,
            seconds=time.monotonic() - started,
            survivors=survivors,
        )

    def read_bytes(self, path: str) -> bytes:
        """See the protocol."""
        return self._files.read_bytes(path)

    def write_bytes(self, path: str, data: bytes) -> None:
        """See the protocol."""
        self._files.write_bytes(path, data)

    def list_files(self, path: str = ".") -> list[str]:
        """See the protocol."""
        return self._files.list_files(path)

    def put_private(self, name: str, data: bytes) -> str:
        """See the protocol."""
        return self._files.put_private(name, data)

    def read_private(self, path: str, limit: int = MAX_OUTPUT) -> bytes | None:
        """See the protocol."""
        return self._files.read_private(path, limit)

    def checkpoint(self) -> str:
        """See the protocol."""
        return self._history.checkpoint()

    def restore(self, token: str) -> None:
        """See the protocol. Whatever still runs is ended first, and the next command starts in a new shell."""
        self._control.kill_others()
        self._shell.drop()
        self._shell.folder = WORKSPACE
        self._history.restore(token)

    def diff(self) -> bytes:
        """See the protocol."""
        return self._history.diff()

    def tree(self) -> str:
        """See the protocol."""
        return self._history.tree()

    def close(self) -> None:
        """Remove the container."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self._close_quietly)
        self._shell.drop()
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
            finally:
                self._client.close()

    def __enter__(self) -> DockerSandbox:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._close_quietly()  # the first fault is the one to tell

    def _close_quietly(self) -> None:
        with contextlib.suppress(SandboxError):
            self.close()

    def _copy_in(self, folder: Path) -> None:
        """Unpack `folder` into the workspace as the commands' user; `.git` folders below the top are left out."""
        try:
            with tempfile.TemporaryFile() as packed:
                with tarfile.open(fileobj=packed, mode="w") as tar:
                    for child in sorted(folder.iterdir()):
                        tar.add(child, child.name, filter=_portable)
                packed.flush()
                with mmap.mmap(packed.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
                    self._control.must(
                        f"mkdir -p {PRIVATE}; tar -xf - -C {WORKSPACE} 2>{PRIVATE}/log || "
                        f"{{ grep -m1 'No space left' {PRIVATE}/log || tail -n1 {PRIVATE}/log; exit 1; }}",
                        data=view,
                        doing="copying the files in",
                    )
        except OSError as fault:
            raise SandboxError(f"the files of {folder} can't be copied: {fault.strerror or fault}") from None

    def _assert_running(self, context: str = "") -> None:
        with faults():
            state = self._client.api.inspect_container(self._id)["State"]
        if not state["Running"]:
            reason = "out of memory" if state.get("OOMKilled") else f"status {state.get('ExitCode')}"
            raise SandboxError(f"the sandbox's container has stopped ({reason}): {context or 'start again'}")


def _host_config(client: DockerClient, config: SandboxConfig) -> HostConfig:
    return client.api.create_host_config(
        init=True,
        network_mode=config.network,
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        mem_limit=config.memory,
        memswap_limit=config.memory,
        nano_cpus=int(config.cpus * 1e9),
        pids_limit=config.pids,
        ulimits=[{"Name": "core", "Soft": 0, "Hard": 0}],
        log_config={"Type": "none"},
        tmpfs={
            WORKSPACE: f"exec,uid=1000,gid=1000,mode=755,size={config.workspace}",
            "/home/agent": f"exec,uid=1000,gid=1000,mode=755,size={config.scratch}",
            PRIVATE: f"exec,uid=1000,gid=1000,mode=700,size={2 * config.workspace}",
            "/tmp": f"exec,mode=1777,size={config.scratch}",
        },
    )


def _portable(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "/.git/" in f"{member.name}/" or member.isdev():
        return None
    member.uid = member.gid = 1000
    member.uname = member.gname = "agent"
    member.mode |= 0o700 if member.isdir() else 0o400
    return member


def _unspeakable(command: str) -> str:
    """Why no shell can be given this command, or ""."""
    if "\0" in command:
        return "a command can't hold a NUL byte"
    try:
        command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "a command must be valid Unicode"
    return ""
