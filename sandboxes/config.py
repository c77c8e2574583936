"""What a sandbox may use. The defaults are the product's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from sandboxes.image import DEFAULT_IMAGE

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = ("/workspace", "/clover", "/tmp", "/home/agent", "/proc", "/sys", "/dev")
_SENSITIVE = ("/", "/proc", "/sys", "/dev", "/run", "/var/run", "/var/lib/docker", "/etc", "/root")


@dataclass(frozen=True)
class Mount:
    """A file or folder of the engine's machine that commands may read, never write. Both paths are absolute."""

    source: Path
    target: str

    def __post_init__(self) -> None:
        target = PurePosixPath(self.target)
        if not self.source.is_absolute() or not target.is_absolute() or ".." in target.parts or self.target == "/":
            raise ValueError(f"a mount needs two absolute paths, not {self.source}:{self.target}")
        real = self.source.resolve()
        if str(real) in _SENSITIVE or real.is_relative_to("/proc") or real.is_relative_to("/sys") or real.is_socket():
            raise ValueError(f"{self.source} is not mounted: it would open the machine to the sandbox")
        if any(target.is_relative_to(place) for place in _OURS):
            raise ValueError(f"a mount can't be at {self.target}: that place is the sandbox's own")

    @classmethod
    def parse(cls, text: str) -> Mount:
        """From `SOURCE:TARGET`. Raises ValueError."""
        source, colon, target = text.rpartition(":")
        if not colon or not source:
            raise ValueError(f"a mount is written SOURCE:TARGET, not {text!r}")
        return cls(Path(source).expanduser().absolute(), target)


@dataclass(frozen=True)
class SandboxConfig:
    """What commands run in, and what they may use.

    image: a tag or id; pulled where the engine does not have it. dockerfile: built instead, with its folder as context.
    setup: shell commands that run once, as root and with `setup_network`, on top of the image; the result is kept as an
    image layer for as long as image and commands stay the same.
    memory, workspace, scratch: bytes (workspace and scratch live in memory and count towards it). cpus: cores.
    pids: processes and threads. network: "none" or "bridge". runtime: of the engine, for example "runsc" ("": its own).
    environment: variables that commands see beside the built-in ones. pass_environment: names of the host's variables
    that are passed too; nothing else of the host's environment is. mounts: read-only.
    log_folder: where each command's raw output is kept (None: nowhere), all of them together at most `log_bytes`.
    """

    image: str = DEFAULT_IMAGE
    dockerfile: Path | None = None
    setup: tuple[str, ...] = ()
    setup_network: str = "bridge"
    memory: int = 4 << 30
    workspace: int = 2 << 30
    scratch: int = 512 << 20
    cpus: float = 2.0
    pids: int = 512
    network: str = "none"
    runtime: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    pass_environment: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    log_folder: Path | None = None
    log_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        for network in (self.network, self.setup_network):
            if network not in {"none", "bridge"}:
                raise ValueError(f"network must be none or bridge, not {network!r}")
        if min(self.memory, self.workspace, self.scratch, self.pids, self.log_bytes) <= 0 or self.cpus <= 0:
            raise ValueError("sandbox limits must be positive")
        for name in (*self.environment, *self.pass_environment):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a variable")

    def variables(self) -> dict[str, str]:
        """The variables that are added for commands: the allowed ones of the host that are set, then the given ones."""
        passed = {name: os.environ[name] for name in self.pass_environment if name in os.environ}
        return {**passed, **self.environment}
