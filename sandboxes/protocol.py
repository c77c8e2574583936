"""The seam between the sandbox and everything above it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class SandboxError(Exception):
    """An infrastructure fault (daemon down, container gone, image missing, disk full).

    Never the model's doing: the message is one line that says what happened and what to do.
    """


class WorkspacePathError(ValueError):
    """A path that leaves the workspace, or that no file there can have."""


@dataclass(frozen=True)
class CommandResult:
    """What one command did.

    exit_code: the shell's status; None when the command was stopped at its limit.
    output: stdout and stderr interleaved, control characters cleaned, at most the head and the tail of it.
    omitted_bytes: bytes between head and tail that `output` leaves out.
    seconds: wall time. survivors: pids of background children still alive when the call returned.
    log: path inside the sandbox of a file with the beginning of the raw output, where `output` leaves bytes out.
    """

    exit_code: int | None
    output: str
    timed_out: bool = False
    omitted_bytes: int = 0
    seconds: float = 0.0
    survivors: tuple[int, ...] = field(default=())
    log: str = ""


class Sandbox(Protocol):
    """A workspace in which commands run and files change, away from the user's own files."""

    @property
    def workspace(self) -> str:
        """Absolute path of the workspace inside the sandbox, for example `/workspace`."""
        ...

    @property
    def image_id(self) -> str:
        """Content id of the image the sandbox was started from."""
        ...

    def run(self, command: str, *, timeout: float = 60.0, env: Mapping[str, str] | None = None) -> CommandResult:
        """Run `command` in the persistent shell; at `timeout` seconds its whole process group dies.

        `env` holds for this command only. Raises SandboxError on infrastructure faults.
        """
        ...

    def read_bytes(self, path: str) -> bytes:
        """Content of a workspace file. `path` is relative to the workspace, or absolute inside it.

        Raises WorkspacePathError, FileNotFoundError, IsADirectoryError, SandboxError.
        """
        ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a workspace file atomically through its resolved path, keeping its mode; makes parent folders."""
        ...

    def list_files(self, path: str = ".") -> list[str]:
        """Workspace-relative paths of the regular files under `path`, sorted, `.git` left out."""
        ...

    def put_private(self, name: str, data: bytes) -> str:
        """Place a helper file outside the workspace, readable by commands; returns its absolute path."""
        ...

    def read_private(self, path: str, limit: int = 64 << 20) -> bytes | None:
        """Content of a file outside the workspace (a report a command wrote), or None where there is none."""
        ...

    def checkpoint(self) -> str:
        """Remember the workspace as it is now; returns a token for `restore`."""
        ...

    def restore(self, token: str) -> None:
        """Bring the workspace back to a checkpoint: contents, new files removed, deleted files back."""
        ...

    def diff(self) -> bytes:
        """Binary-safe `git diff` of the start of the sandbox's life against the workspace now, new files included."""
        ...

    def tree(self) -> str:
        """Git's tree hash of the workspace now, build output left out: equal trees test equal."""
        ...

    def close(self) -> None:
        """Remove the container. Safe to call twice."""
        ...
