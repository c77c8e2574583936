"""The image that a sandbox starts from: found, pulled, or built from a Dockerfile; with set-up commands on top.

What is built here is tagged by its content, so that the second start finds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shlex
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandboxes.client import faults
from sandboxes.config import SandboxConfig
from sandboxes.image import DEFAULT_IMAGE
from sandboxes.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "clover-agent.image"
MADE = "clover-agent-made"  # repository of the tags of built images
_CACHES = {"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
_LIMIT = 1800  # seconds without a word from the engine

Say = Callable[[str], None]


def quiet(text: str) -> None:
    """Say nothing."""


def prepare(client: DockerClient, config: SandboxConfig, say: Say = quiet) -> str:
    """Id of the image for `config`, made or fetched where the engine lacks it. Raises SandboxError.

    say: told of progress, a line at a time.
    """
    if config.dockerfile is not None:
        image = _from_dockerfile(client, config.dockerfile, config.setup_network, say)
    else:
        image = find(client, config.image) or _pulled(client, config.image, say)
    return _with_setup(client, image, config, say) if config.setup else image


def find(client: DockerClient, name: str) -> str:
    """Id of an image that the engine has, or ""."""
    import docker.errors

    with faults():
        try:
            return str(client.images.get(name).id)
        except docker.errors.ImageNotFound:
            return ""


def remove_made(client: DockerClient, label: str = LABEL) -> int:
    """Remove every image with the label (all that were built here) that is not in use; returns how many."""
    import docker.errors

    removed = 0
    with faults():
        for image in client.images.list(all=True, filters={"label": label}):
            try:
                client.images.remove(str(image.id), force=True)
                removed += 1
            except docker.errors.APIError:  # a container still runs from it
                continue
    return removed


def _pulled(client: DockerClient, name: str, say: Say) -> str:
    if name == DEFAULT_IMAGE:
        raise SandboxError(f"the sandbox image {name} is missing: run `clover-agent sandbox build`")
    say(f"pulling {name}")
    repository, tag = _split(name)
    try:
        with faults():
            _follow(client.api.pull(repository, tag=tag, stream=True, decode=True), say)
    except SandboxError as fault:
        raise SandboxError(f"the image {name} is not here and {_why_no_pull(str(fault))}") from None
    found = find(client, name)
    if not found:
        raise SandboxError(f"the engine does not list {name} after its pull: see `docker images`")
    return found


def _split(name: str) -> tuple[str, str]:
    """Repository, and tag or digest."""
    if "@" in name:
        repository, _, digest = name.partition("@")
        return repository, digest
    head, slash, last = name.rpartition("/")
    base, _, tag = last.partition(":")
    return f"{head}{slash}{base}", tag or "latest"


def _why_no_pull(said: str) -> str:
    lower = said.lower()
    if "no matching manifest" in lower or "does not match the specified platform" in lower:
        return f"its registry has none for this machine's architecture: choose another image ({said})"
    if any(word in lower for word in ("unauthorized", "denied", "authentication required", "no basic auth")):
        return f"its registry refuses the pull: run `docker login`, or check the name ({said})"
    if "manifest unknown" in lower or "not found" in lower or "name unknown" in lower:
        return f"its registry does not have it: check the name ({said})"
    if "disk is full" in lower:
        return f"can't be pulled: {said}"
    return f"can't be pulled: check the name and the network, or run `clover-agent sandbox build` ({said})"


def _from_dockerfile(client: DockerClient, path: Path, network: str, say: Say) -> str:
    if not path.is_file():
        raise SandboxError(f"there is no Dockerfile {path}")
    try:
        context, key = _context(path)
    except OSError as fault:
        raise SandboxError(f"the Dockerfile {path} or its folder can't be read: {fault.strerror or fault}") from None
    return _made(client, f"file-{key}", context, f"the Dockerfile {path}", path.name, network, say)


def _with_setup(client: DockerClient, image: str, config: SandboxConfig, say: Say) -> str:
    """The image with the set-up commands run on it, as root, each one a layer."""
    runs = "".join(f"RUN {json.dumps(['/bin/bash', '-euc', command])}\n" for command in config.setup)
    key = hashlib.sha256(f"{image}\n{runs}{config.setup_network}".encode()).hexdigest()[:24]
    text = f"FROM {image}\nLABEL {LABEL}=setup-{key}\nUSER root\n{runs}"  # labelled at once, for what a fault leaves
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        _add(tar, "Dockerfile", text.encode())
    doing = f"the set-up commands ({shlex.join(config.setup)[:60]})"
    try:
        return _made(client, f"setup-{key}", packed.getvalue(), doing, "Dockerfile", config.setup_network, say)
    except BaseException:
        with contextlib.suppress(SandboxError):
            remove_made(client, f"{LABEL}=setup-{key}")
        raise


def _made(client: DockerClient, tag: str, context: bytes, doing: str, dockerfile: str, network: str, say: Say) -> str:
    name = f"{MADE}:{tag}"
    if found := find(client, name):
        return found
    say(f"building {doing}")
    try:
        with faults():
            lines = client.api.build(
                fileobj=io.BytesIO(context),
                custom_context=True,
                dockerfile=dockerfile,
                tag=name,
                rm=True,
                forcerm=True,
                decode=True,
                network_mode=network,
                labels={LABEL: tag},
                buildargs={variable: os.environ[variable] for variable in _CACHES if variable in os.environ},
                timeout=_LIMIT,
            )
            _follow(lines, say)
    except SandboxError as fault:
        raise SandboxError(f"{doing} failed: {fault}") from None
    found = find(client, name)
    if not found:
        raise SandboxError(f"{doing} made no image: see `docker images`")
    return found


def _follow(lines: Iterable[Mapping[str, Any]], say: Say) -> None:
    """Pass the engine's progress on, a line for each change of state. Raises SandboxError for a fault in it."""
    import docker.errors

    states: dict[str, str] = {}
    printed = ""
    for line in lines:
        if error := line.get("error"):
            before = f"; the last line before: {printed}" if printed else ""
            with faults():
                raise docker.errors.APIError(str(error), explanation=f"{error}{before}")
        if text := str(line.get("stream") or "").strip():
            printed = text.splitlines()[-1][:200]
            say(printed)
            continue
        layer, status = str(line.get("id") or ""), str(line.get("status") or "")
        if status and states.get(layer) != status:
            states[layer] = status
            size = (line.get("progressDetail") or {}).get("total")
            say(f"{layer}: {status}" * bool(layer) + status * (not layer) + (f" ({size >> 10} KiB)" if size else ""))


def _context(path: Path) -> tuple[bytes, str]:
    """A build's files as a tar archive, and a key of their names, modes and content.

    `.dockerignore` is honoured by the Docker library's own rules.
    """
    from docker.utils.build import exclude_paths

    folder = path.absolute().parent
    ignore = folder / ".dockerignore"
    patterns = ignore.read_text(encoding="utf-8").splitlines() if ignore.is_file() else []
    patterns = [line.strip() for line in patterns if line.strip() and not line.startswith("#")]
    packed, key = io.BytesIO(), hashlib.sha256()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in sorted({*exclude_paths(str(folder), patterns, dockerfile=path.name), path.name}):
            file = folder / name
            if file.is_symlink():
                member = tar.gettarinfo(str(file), name)
                tar.addfile(member)
                key.update(f"{name}\0link\0{member.linkname}\0".encode("utf-8", "surrogateescape"))
            elif file.is_file():
                data, mode = file.read_bytes(), file.stat().st_mode & 0o777
                _add(tar, name, data, mode)
                key.update(f"{name}\0{mode}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
    return packed.getvalue(), key.hexdigest()[:24]


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    tar.addfile(member, io.BytesIO(data))
