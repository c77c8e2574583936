"""A bash inside a container that stays between commands, spoken to over one attached exec.

A command is one call of a wrapper function; a line with an unguessable token closes its output, so that what
background children hold open never matters. When the shell dies (`exit`, `exec`, `kill -9 $$`, a limit) its status is
reported and the next command starts a new shell in the same folder.
"""

from __future__ import annotations

import contextlib
import secrets
import select
import shlex
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sandboxes.client import faults
from sandboxes.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

_WRAPPER = r"""
__clover_run() {
  local -x "${@:4}" __clover_none=
  eval "$2" </dev/null
  local __clover_status=$? __clover_pid __clover_alive=
  for __clover_pid in /proc/[0-9]*; do
    __clover_pid=${__clover_pid#/proc/}
    [[ -O /proc/$__clover_pid && " $$ $3 " != *" $__clover_pid "* ]] && __clover_alive+=" $__clover_pid"
  done
  printf '\n%s %d %s%s\n' "$1" "$__clover_status" "$PWD" "//$__clover_alive"
}
"""
_FRAME = struct.Struct(">BxxxI")
_POLL = 0.25  # seconds of silence after which the shell is looked at


class Sink(Protocol):
    """Where a command's output goes."""

    def add(self, data: bytes) -> None: ...

    def end(self) -> bytes: ...

    def cut(self, count: int) -> None: ...


@dataclass(frozen=True)
class ShellResult:
    """exit_code: None at the limit. died: the shell itself ended. survivors: pids of this user's other processes."""

    exit_code: int | None
    timed_out: bool = False
    died: bool = False
    survivors: tuple[int, ...] = ()


class Shell:
    """One persistent bash of a container, run as `user`."""

    def __init__(
        self, client: DockerClient, container: str, *, user: str, folder: str, environment: Mapping[str, str]
    ) -> None:
        self._api = client.api
        self._container = container
        self._user = user
        self.folder = folder
        self._environment = dict(environment)
        self._socket: socket.socket | None = None
        self._exec = ""
        self.pid = 0
        self._frame: list[int] = []

    def run(
        self,
        command: str,
        sink: Sink,
        timeout: float,
        *,
        env: Mapping[str, str] | None = None,
        ignore: tuple[int, ...] = (),
    ) -> ShellResult:
        """Run a command; its output goes to `sink`. `ignore`: pids that are no survivors. Raises SandboxError."""
        deadline = time.monotonic() + timeout
        if "\x00" in command:
            raise SandboxError("a command can't hold a NUL byte")
        stream = self._open()
        token = secrets.token_hex(16)
        given = [f"{name}={value}" for name, value in (env or {}).items()]
        call = ["__clover_run", token, command, " ".join(map(str, ignore)), *given]
        closing = f"\n{token} ".encode()
        try:
            stream.sendall((" ".join(map(shlex.quote, call)) + "\n").encode("utf-8", "surrogateescape"))
            while True:
                data = self._read(stream, deadline)
                if data is None:
                    self.kill()
                    return ShellResult(None, timed_out=True)
                if not data:
                    return ShellResult(self._status(), died=True)
                sink.add(data)
                end = sink.end()
                found = end.rfind(closing)
                if found >= 0 and end.endswith(b"\n") and found + len(closing) < len(end):
                    sink.cut(len(end) - found)
                    status, rest = end[found + len(closing) : -1].split(b" ", 1)
                    folder, _, alive = rest.rpartition(b"//")
                    self.folder = folder.decode("utf-8", "surrogateescape") or "/"
                    return ShellResult(int(status), survivors=tuple(map(int, alive.split())))
        except ConnectionError:
            return ShellResult(self._status(), died=True)

    def kill(self) -> None:
        """End every process of the shell's user in the container, whatever session or group it is in."""
        with faults():
            made = self._api.exec_create(self._container, ["/bin/bash", "-c", "kill -9 -1"], user=self._user)
            self._api.exec_start(made["Id"], detach=False)
        self._drop()

    def close(self) -> None:
        """Hang up."""
        self._drop()

    def _open(self) -> socket.socket:
        if self._socket is not None and _hung_up(self._socket):
            self._drop()
        if self._socket is not None:
            return self._socket
        with faults():
            made = self._api.exec_create(
                self._container,
                ["/bin/bash", "--noprofile", "--norc"],
                stdin=True,
                user=self._user,
                environment=self._environment,
            )
            attached = self._api.exec_start(made["Id"], socket=True)
        self._exec = made["Id"]
        self._attached = attached
        stream: Any = getattr(attached, "_sock", attached)
        stream.setblocking(True)
        self._socket = stream
        self._frame = []
        stream.sendall(f"{_WRAPPER}\ncd {shlex.quote(self.folder)} 2>/dev/null\necho $$\n".encode())
        first = b""
        while not first.endswith(b"\n"):
            data = self._read(stream, time.monotonic() + 20)
            if not data:
                self._drop()
                raise SandboxError("the sandbox's shell did not start: the image needs bash")
            first += data
        self.pid = int(first.split()[-1])
        return stream

    def _read(self, stream: socket.socket, deadline: float) -> bytes | None:
        """The next piece of output; b"" when the shell has ended, None at the deadline."""
        while not _wait(stream, min(deadline, time.monotonic() + _POLL)):
            if time.monotonic() >= deadline:
                return None
            if self._exec and not self._is_running():  # its children may hold the stream open
                return b""
        if not self._frame:
            header = b""
            while len(header) < _FRAME.size:
                if not _wait(stream, deadline):
                    return None
                piece = stream.recv(_FRAME.size - len(header))
                if not piece:
                    return b""
                header += piece
            self._frame = [_FRAME.unpack(header)[1]]
        if not _wait(stream, deadline):
            return None
        piece = stream.recv(min(self._frame[0], 1 << 18))
        self._frame[0] -= len(piece)
        if self._frame[0] <= 0 or not piece:
            self._frame = []
        return piece

    def _status(self) -> int:
        """Exit status of a shell that ended by itself."""
        try:
            with faults():
                for _ in range(50):
                    info = self._api.exec_inspect(self._exec)
                    if not info["Running"]:
                        return int(info["ExitCode"] if info["ExitCode"] is not None else -1)
                    time.sleep(0.02)
            return -1
        finally:
            self._drop()

    def _is_running(self) -> bool:
        with faults():
            return bool(self._api.exec_inspect(self._exec)["Running"])

    def _drop(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
                self._attached.close()
        self._socket = None
        self._frame = []


def _hung_up(stream: socket.socket) -> bool:
    """Whether the other end is closed and nothing is left to read."""
    try:
        return bool(select.select([stream], [], [], 0)[0]) and not stream.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _wait(stream: socket.socket, deadline: float) -> bool:
    left = deadline - time.monotonic()
    return left > 0 and bool(select.select([stream], [], [], left)[0])
