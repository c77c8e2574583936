"""The connection to a Docker engine, and its faults in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandboxes.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient


def connect() -> DockerClient:
    """A client of the engine that DOCKER_HOST names, or of the local one. Raises SandboxError where none answers."""
    import docker

    with faults():
        client = docker.from_env(timeout=120)
        client.ping()
        return client


@contextmanager
def faults() -> Iterator[None]:
    """Turn what the Docker library raises into SandboxError with one line that says what to do."""
    import docker.errors
    import requests.exceptions

    try:
        yield
    except docker.errors.ImageNotFound as fault:
        raise SandboxError(
            f"the sandbox image is missing ({_reason(fault)}): run `clover-agent sandbox build`, or pull it"
        ) from None
    except docker.errors.NotFound as fault:
        raise SandboxError(f"the sandbox's container is gone ({_reason(fault)}): start again") from None
    except docker.errors.APIError as fault:
        reason = _reason(fault)
        if "no space left" in reason:
            raise SandboxError(f"the Docker engine's disk is full ({reason}): free space, then start again") from None
        if "is not running" in reason or "marked for removal" in reason or "removal of container" in reason:
            raise SandboxError(f"the sandbox's container has stopped ({reason}): start again") from None
        raise SandboxError(f"the Docker engine refused a request: {reason}") from None
    except docker.errors.DockerException as fault:
        text = str(fault)
        if "Permission denied" in text:
            raise SandboxError(
                "no permission on the Docker socket: add your user to the group `docker` and log in again"
            ) from None
        raise SandboxError(
            "no Docker engine answers: start it (for example `sudo systemctl start docker`), or set DOCKER_HOST"
        ) from None
    except (requests.exceptions.RequestException, OSError) as fault:
        raise SandboxError(f"the Docker engine stopped answering: {type(fault).__name__}: {fault}") from None


def _reason(fault: Exception) -> str:
    text = str(getattr(fault, "explanation", "") or fault)
    return " ".join(text.split())[:300]
