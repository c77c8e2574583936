"""The sandbox's own work inside the container: scripts in a shell that the model does not see."""

from __future__ import annotations

from sandboxes.protocol import SandboxError
from sandboxes.shell import Shell, ShellResult

MAX_OUTPUT = 64 << 20
_TIMEOUT = 120.0
_NO_FORK = b"Resource temporarily unavailable"


class _Whole:
    """All output, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit

    def add(self, data: bytes) -> None:
        self.data += data
        if len(self.data) > self._limit:
            raise TooLarge(f"more than {self._limit} bytes")


class TooLarge(Exception):
    """What a script prints exceeds its limit."""


class Control:
    """Runs scripts as the commands' user, who may kill everything in the container, this shell included."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    @property
    def pid(self) -> int:
        """The shell's number inside the container, 0 before its first script."""
        return self._shell.pid

    def do(self, script: str, *, data: bytes | memoryview | None = None, limit: int = MAX_OUTPUT) -> tuple[int, bytes]:
        """Status and output of a script, run in a subshell. Raises SandboxError, and TooLarge.

        data: bytes for the script's standard input.
        """
        call = f"( {script}\n) 2>&1"
        if data is not None:  # whatever the script reads, nothing of the data may reach the shell as a command
            call = f"head -c {len(data)} | {{ {call}; __clover_code=$?; cat >/dev/null; ( exit $__clover_code ); }}"
        result, said = self._run(call, data, limit)
        if result.died:  # every process of the user was killed, this shell among them
            result, said = self._run(call, data, limit)
        elif result.exit_code and _NO_FORK in said:  # the command's children have used all process numbers
            self.kill_others()
            result, said = self._run(call, data, limit)
        if result.timed_out:
            raise SandboxError("the sandbox does not answer: start again")
        return result.exit_code if result.exit_code is not None else 1, said

    def must(self, script: str, *, data: bytes | memoryview | None = None, doing: str) -> bytes:
        """Output of a script that has no reason to fail. Raises SandboxError, with `doing` in its text."""
        status, said = self.do(script, data=data)
        if status:
            if b"No space left" in said:
                raise SandboxError(f"the sandbox's workspace is full while {doing}: give it more room")
            raise SandboxError(f"{doing} failed in the sandbox with status {status}: {last_line(said)}")
        return said

    def kill_others(self) -> None:
        """End every process of the commands' user but this shell, whatever session or group it is in.

        The kernel does it in one sweep, so that nothing forks away; no new process is needed for it.
        """
        result, _ = self._run("kill -9 -1", None, MAX_OUTPUT)
        if result.died:
            self._run("kill -9 -1", None, MAX_OUTPUT)

    def survivors(self) -> tuple[int, ...]:
        """Numbers of the user's other processes."""
        return self._run(":", None, MAX_OUTPUT)[0].survivors

    def close(self) -> None:
        """Hang up."""
        self._shell.drop()

    def _run(self, call: str, data: bytes | memoryview | None, limit: int) -> tuple[ShellResult, bytes]:
        sink = _Whole(limit)
        result = self._shell.run(call, sink, _TIMEOUT, data=data)
        return result, bytes(sink.data)


def last_line(data: bytes) -> str:
    """The last line of an output, for a message."""
    return " ".join(data.decode("utf-8", "replace").strip().splitlines()[-1:])[:200]
