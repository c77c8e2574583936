"""A bash inside a container that stays between commands, spoken to over one attached exec.

A command is evaluated at the shell's top level; a line with an unguessable token then closes its output, so that what
background children hold open, or print, never matters. When the shell dies (`exit`, `exec`, `kill -9 $$`) its status
is reported and the next command starts a new shell in the same folder.
"""

from __future__ import annotations

import re
import secrets
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandboxes.client import faults
from sandboxes.frames import Frames
from sandboxes.output import Sink
from sandboxes.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

# Descriptor 250 is the stream to us, whatever a command does to the shell's 1 and 2, which share it, so that order is
# kept. /proc/PID belongs to the user of the process, so -O finds the shell's own kind. The closing line stays below
# PIPE_BUF: nothing can be written into it.
_SETUP = r"""
exec 2>&1 250>&1
__clover_with() { local -x "${@:2}"; eval "$1"; }
__clover_end() {
  local __clover_status=$1 __clover_pid __clover_alive=
  for __clover_pid in /proc/[0-9]*; do
    __clover_pid=${__clover_pid#/proc/}
    [[ -O /proc/$__clover_pid && " $$ $3 " != *" $__clover_pid "* && ${#__clover_alive} -lt 1000 ]] &&
      __clover_alive+=" $__clover_pid"
  done
  builtin printf '\n%s %d%s\0%.2000s\0' "$2" "$__clover_status" "$__clover_alive" "$PWD" >&250
}
"""
_FIELDS = re.compile(rb"(\d+)((?: \d+)*)\x00([^\x00]*)\x00", re.S)
_POLL = 0.25  # seconds between looks at whether the shell still lives
_DRAIN = 0.05  # seconds of silence after which a dead shell's output is complete
_START = 20.0  # seconds that a shell may take to appear


class _Ended(Exception):
    """The shell is gone."""


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
        self._frames: Frames | None = None
        self._exec = ""
        self._late = b""
        self.pid = 0

    def run(
        self,
        command: str,
        sink: Sink,
        timeout: float,
        *,
        env: Mapping[str, str] | None = None,
        ignore: tuple[int, ...] = (),
        data: bytes | memoryview | None = None,
    ) -> ShellResult:
        """Run a command; its output goes to `sink`. Raises SandboxError.

        ignore: pids that are no survivors. data: the command's standard input, all of which it must read (without
        it, /dev/null). At the limit the caller has to end the processes; the shell is let go.
        """
        frames = self._open()
        token = secrets.token_hex(16)
        given = [f"{name}={value}" for name, value in (env or {}).items()]
        body = " ".join(map(shlex.quote, ["__clover_with", command, *given])) if given else command
        line = (
            f"eval {shlex.quote(body)} {'</dev/null ' if data is None else ''}>&250 2>&250; "
            f'{{ __clover_end $? {token} "{" ".join(map(str, ignore))}"; }} 2>/dev/null\n'
        )
        try:
            frames.send(line.encode("utf-8", "surrogateescape"))
            if data is not None:
                frames.send(data)
            closing = self._collect(frames, f"\n{token} ".encode(), sink, time.monotonic() + timeout)
        except (_Ended, ConnectionError):
            return ShellResult(self._status(), died=True)
        except BaseException as fault:
            self.drop()  # what is left of this command's output must not become the next one's
            if isinstance(fault, TimeoutError):
                raise SandboxError("the sandbox takes no input any more: start again") from None
            raise
        if closing is None:
            self.drop()
            return ShellResult(None, timed_out=True)
        self.folder = closing[3].decode("utf-8", "surrogateescape") or "/"
        return ShellResult(int(closing[1]), survivors=tuple(map(int, closing[2].split())))

    def drop(self) -> None:
        """Hang up; the next command starts a new shell in the last folder."""
        if self._frames is not None:
            self._frames.close()
        self._frames = None
        self._late = b""

    def _collect(self, frames: Frames, closing: bytes, sink: Sink, deadline: float) -> re.Match[bytes] | None:
        """The closing line's fields, None at the deadline. Raises _Ended when the shell ended before it."""
        held, self._late = self._late, b""
        looked = time.monotonic()
        alive = True
        while True:
            found = held.find(closing)
            if found >= 0 and (fields := _FIELDS.match(held, found + len(closing))):
                sink.add(held[:found])
                self._late = held[fields.end() :]  # of background children
                return fields
            if found < 0:
                cut = max(0, len(held) - len(closing) + 1)
                sink.add(held[:cut])
                held = held[cut:]
            now = time.monotonic()
            piece = frames.read(min(deadline, now + (_POLL if alive else _DRAIN))) if now < deadline else None
            if piece:
                held += piece
            elif piece == b"" or not alive:
                sink.add(held)
                raise _Ended
            elif time.monotonic() >= deadline:
                sink.add(held)
                return None
            if alive and time.monotonic() - looked > _POLL:
                looked = time.monotonic()
                alive = self._is_running()
                if not alive:  # its children may hold the stream open and print without end
                    deadline = min(deadline, looked + _POLL)

    def _open(self) -> Frames:
        if self._frames is not None and self._frames.hung_up():
            self.drop()
        if self._frames is not None:
            return self._frames
        with faults():
            made = self._api.exec_create(
                self._container,
                ["/bin/bash", "--noprofile", "--norc"],
                stdin=True,
                user=self._user,
                environment=self._environment,
            )
            frames = Frames(self._api.exec_start(made["Id"], socket=True))
            self._exec = made["Id"]
            frames.send(f"{_SETUP}\ncd {shlex.quote(self.folder)} 2>/dev/null\necho $$\n".encode())
            first = b""
            while not first.endswith(b"\n"):
                piece = frames.read(time.monotonic() + _START)
                if not piece:
                    frames.close()
                    raise SandboxError(f"the sandbox's shell did not start ({_said(first)}): the image needs bash")
                first += piece
        if not first.strip().isdigit():
            frames.close()
            raise SandboxError(f"the sandbox's shell did not start: {_said(first)}")
        self.pid = int(first)
        self._frames = frames
        return frames

    def _status(self) -> int:
        """Exit status of a shell that ended by itself, -1 where the engine does not know it."""
        self.drop()
        with faults():
            for _ in range(50):
                info = self._api.exec_inspect(self._exec)
                if not info["Running"]:
                    return int(info["ExitCode"] if info["ExitCode"] is not None else -1)
                time.sleep(0.02)
        return -1

    def _is_running(self) -> bool:
        with faults():
            return bool(self._api.exec_inspect(self._exec)["Running"])


def _said(data: bytes) -> str:
    return " ".join(data.decode("utf-8", "replace").split())[:200] or "no answer"
