"""Containers and networks that nobody owns any more.

Each carries its owner: this boot, the process and when it started. A later start, or a clean exit, removes
those whose owner is gone, so that nothing outlives even a SIGKILL by more than one start.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sandboxes.client import faults

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "clover-agent.process"


def owner() -> str:
    """This process, told apart from any later one with its number."""
    return f"{_machine()}:{_boot()}:{_namespace()}:{os.getpid()}:{_started(os.getpid())}"


def sweep(client: DockerClient) -> int:
    """Remove containers and networks whose owner on this machine is gone; returns how many."""
    import docker.errors

    removed = 0
    with faults():
        for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
            if not _alive(container.labels[LABEL]):
                with contextlib.suppress(docker.errors.APIError):  # another sweep was faster
                    container.remove(force=True, v=True)
                    removed += 1
        for network in client.api.networks(filters={"label": LABEL}):
            if not _alive(network["Labels"][LABEL]):
                with contextlib.suppress(docker.errors.APIError):
                    client.api.remove_network(network["Id"])
                    removed += 1
    return removed


def _alive(label: str) -> bool:
    """Whether an owner lives, or may: those of other machines and process namespaces can't be seen from here."""
    try:
        machine, boot, namespace, pid, started = label.split(":")
    except ValueError:
        return False
    if machine != _machine():
        return True
    if boot != _boot():
        return False
    return namespace != _namespace() or (pid.isdigit() and _started(int(pid)) == started)


def _machine() -> str:
    name = _read("/etc/machine-id")
    return name[:12] or os.uname().nodename.replace(":", "-")


def _boot() -> str:
    return _read("/proc/sys/kernel/random/boot_id")[:13]


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Start time of a process in clock ticks since boot, "" where there is none (or it is a zombie)."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
