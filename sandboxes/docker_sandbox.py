"""A workspace in a Docker container: the repository is copied in, patches are copied out.

Two shells run inside as an unprivileged user: one for commands, one for the sandbox's own work on files.
"""

from __future__ import annotations

import atexit
import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sandboxes.client import connect
from sandboxes.config import SandboxConfig
from sandboxes.container import PRIVATE, WORKSPACE, Container
from sandboxes.control import MAX_OUTPUT, Control
from sandboxes.copying import copy_in
from sandboxes.files import Files
from sandboxes.history import History
from sandboxes.image import USER
from sandboxes.images import prepare, quiet
from sandboxes.janitor import sweep
from sandboxes.output import Both, Head
from sandboxes.protocol import CommandResult, SandboxError
from sandboxes.rawlog import Logs
from sandboxes.shell import Shell

if TYPE_CHECKING:
    from docker import DockerClient

HEAD_BYTES, TAIL_BYTES = 16_000, 16_000
MAX_SURVIVORS = 64
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

    def __init__(self, client: DockerClient, container: Container, image_id: str, config: SandboxConfig) -> None:
        """Use `DockerSandbox.start`."""
        environment = {**_ENVIRONMENT, **config.variables()}
        self._client = client
        self._container = container
        self._image_id = image_id
        self._shell = Shell(client, container.id, user=USER, folder=WORKSPACE, environment=environment)
        self._control = Control(Shell(client, container.id, user=USER, folder="/", environment=_ENVIRONMENT))
        self._files = Files(self._control, WORKSPACE, PRIVATE)
        self._history = History(self._control, WORKSPACE, PRIVATE)
        self._logs = Logs(self._files, config.log_folder, config.log_bytes)
        self._closed = False
        atexit.register(self._close_quietly)

    @classmethod
    def start(cls, folder: Path, config: SandboxConfig | None = None, say: Callable[[str], None] = quiet) -> Self:
        """A container with a copy of `folder` as its workspace. Raises SandboxError.

        say: told of the progress of pulls and builds, a line at a time.
        """
        config = config or SandboxConfig()
        client = connect()
        try:
            sweep(client)
            image = prepare(client, config, say)
            container = Container(client, image, config, _ENVIRONMENT)
        except BaseException:
            client.close()
            raise
        sandbox = cls(client, container, image, config)
        try:
            container.start()
            copy_in(sandbox._control, folder, WORKSPACE, PRIVATE)
            sandbox._history.begin()
        except BaseException as fault:
            unfit = ""
            if isinstance(fault, SandboxError):
                try:
                    container.assert_running()
                except SandboxError:
                    unfit = container.unfit()
            sandbox._close_quietly()
            if unfit:
                raise SandboxError(f"the sandbox does not start: {unfit} ({fault})") from None
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

    @property
    def container_id(self) -> str:
        """The engine's id of the container."""
        return self._container.id

    def run(self, command: str, *, timeout: float = 60.0, env: Mapping[str, str] | None = None) -> CommandResult:
        """See the protocol. Working folder, variables and functions last; after a limit, the folder does."""
        if fault := _unspeakable(command):
            return CommandResult(exit_code=126, output=f"{fault}\n")
        started = time.monotonic()
        output, log = Head(HEAD_BYTES, TAIL_BYTES), self._logs.begin()
        try:
            result = self._shell.run(command, Both(output, log), timeout, env=env, ignore=(self._control.pid,))
        except BaseException:  # an interrupt must not leave the command running
            log.close()
            with contextlib.suppress(Exception):
                self._control.kill_others()
            raise
        survivors = result.survivors
        if result.died:
            self._container.assert_running()
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
            log=self._logs.end(log, show=bool(output.omitted)),
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
        try:
            self._container.remove()
        finally:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._close_quietly()  # the first fault is the one to tell

    def _close_quietly(self) -> None:
        with contextlib.suppress(SandboxError):
            self.close()


def _unspeakable(command: str) -> str:
    """Why no shell can be given this command, or ""."""
    if "\0" in command:
        return "a command can't hold a NUL byte"
    try:
        command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "a command must be valid Unicode"
    return ""
