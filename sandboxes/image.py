"""The default sandbox image: Debian with Python, pytest, git, make and ripgrep, and an unprivileged user.

Made from the registry's Debian image where a registry answers, else from Debian packages (debootstrap, which needs
root).
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sandboxes.client import connect, faults
from sandboxes.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

DEFAULT_IMAGE = "clover-agent-sandbox:2"
USER = "1000:1000"
SUITE = "bookworm"
PACKAGES = ("python3", "python-is-python3", "python3-pytest", "git", "make", "ripgrep", "patch", "procps")

_DOCKERFILE = f"""\
FROM debian:{SUITE}-slim
RUN apt-get update && apt-get install -y --no-install-recommends {" ".join(PACKAGES)} && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 --create-home agent
"""
_SLIM = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists")


def build(say: Callable[[str], None], *, force: bool = False) -> str:
    """Make the default image where it is missing (or anyway, with `force`); returns its id. Raises SandboxError."""
    client = connect()
    if not force and (found := _find(client)):
        say(f"sandbox image {DEFAULT_IMAGE} is there")
        return found
    if not _from_registry(client, say):
        _from_packages(client, say)
    found = _find(client)
    if not found:
        raise SandboxError(f"the engine does not list {DEFAULT_IMAGE} after its build: see `docker images`")
    say(f"sandbox image {DEFAULT_IMAGE} is ready ({found[:19]})")
    return found


def _find(client: DockerClient) -> str:
    import docker.errors

    try:
        return str(client.images.get(DEFAULT_IMAGE).id)
    except docker.errors.ImageNotFound:
        return ""


def _from_registry(client: DockerClient, say: Callable[[str], None]) -> bool:
    import docker.errors
    import requests.exceptions

    say(f"building {DEFAULT_IMAGE} on the registry's debian:{SUITE}-slim")
    try:
        client.images.build(fileobj=io.BytesIO(_DOCKERFILE.encode()), tag=DEFAULT_IMAGE, rm=True)
    except (docker.errors.DockerException, requests.exceptions.RequestException) as fault:
        say(f"no image from a registry ({' '.join(str(fault).split())[:120]})")
        return False
    return True


def _from_packages(client: DockerClient, say: Callable[[str], None]) -> None:
    if shutil.which("debootstrap") is None:
        raise SandboxError("no registry answers and debootstrap is missing: run `apt-get install debootstrap` as root")
    if os.geteuid() != 0:
        raise SandboxError("no registry answers; making the image from Debian packages needs root: use sudo")
    say(f"building {DEFAULT_IMAGE} from Debian packages (about a minute)")
    with tempfile.TemporaryDirectory(prefix="clover-image-") as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stdout + done.stderr).strip().splitlines()[-1:]
            raise SandboxError(f"debootstrap failed: {' '.join(last)}")
        _add_user(root)
        for name in _SLIM:
            shutil.rmtree(root / name, ignore_errors=True)
        archive = Path(folder) / "root.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(root, ".", filter=_no_devices)
        with faults():
            repository, tag = DEFAULT_IMAGE.split(":")
            client.api.import_image_from_file(str(archive), repository=repository, tag=tag)


def _add_user(root: Path) -> None:
    for name, line in (("passwd", "agent:x:1000:1000::/home/agent:/bin/bash\n"), ("group", "agent:x:1000:\n")):
        with (root / "etc" / name).open("a") as file:
            file.write(line)
    home = root / "home" / "agent"
    home.mkdir(parents=True)
    os.chown(home, 1000, 1000)


def _no_devices(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.isdev() else member
