"""What a sandbox may use. The defaults are the product's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandboxes.image import DEFAULT_IMAGE


@dataclass(frozen=True)
class SandboxConfig:
    """image: a tag or id that the engine has. memory, workspace, scratch: bytes (workspace and scratch live in memory
    and count towards it). cpus: cores. pids: processes and threads. network: "none" or "bridge". environment: the
    variables that commands see beside the built-in ones; nothing of the host's environment is passed."""

    image: str = DEFAULT_IMAGE
    memory: int = 4 << 30
    workspace: int = 2 << 30
    scratch: int = 512 << 20
    cpus: float = 2.0
    pids: int = 512
    network: str = "none"
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.network not in {"none", "bridge"}:
            raise ValueError(f"network must be none or bridge, not {self.network!r}")
        if min(self.memory, self.workspace, self.scratch, self.pids) <= 0 or self.cpus <= 0:
            raise ValueError("sandbox limits must be positive")
