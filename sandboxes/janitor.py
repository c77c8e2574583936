"""Containers that nobody owns any more.

Every container carries its owner: this boot, the process and when it started. A later start, or a clean exit, removes
those whose owner is gone, so that nothing outlives even a SIGKILL by more than one start.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sandboxes.client import faults

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "clover-agent.owner"


def owner() -> str:
    """This process, told apart from any later one with its number."""
    return f"{_boot()}:{os.getpid()}:{_started(os.getpid())}"


def sweep(client: DockerClient) -> int:
    """Remove containers whose owner on this machine is gone; returns how many."""
    import docker.errors

    removed = 0
    with faults():
        for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
            if _alive(container.labels[LABEL]):
                continue
            try:
                container.remove(force=True, v=True)
                removed += 1
            except docker.errors.APIError:  # another sweep was faster
                continue
    return removed


def _alive(label: str) -> bool:
    boot, _, rest = label.partition(":")
    pid, _, started = rest.partition(":")
    if boot != _boot():
        # a remote engine may hold another machine's containers; a reboot of this one ends its own
        return _other_machine(boot)
    return pid.isdigit() and _started(int(pid)) == started


def _other_machine(boot: str) -> bool:
    return boot.split("/", maxsplit=1)[0] != _boot().split("/")[0]


def _boot() -> str:
    machine = Path("/etc/machine-id")
    name = machine.read_text().strip()[:12] if machine.is_file() else os.uname().nodename
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{name}/{boot.read_text().strip()[:12] if boot.is_file() else ''}"


def _started(pid: int) -> str:
    """Start time of a process in clock ticks since boot, "" where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
