"""Shared fixtures: a real Docker engine, or the test is skipped (never on CI)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from sandboxes.client import connect
from sandboxes.config import SandboxConfig
from sandboxes.docker_sandbox import DockerSandbox
from sandboxes.protocol import SandboxError

settings.register_profile("clover-agent", deadline=None)  # the machine may be busy
settings.load_profile("clover-agent")


@pytest.fixture(scope="session")
def engine() -> None:
    """A reachable Docker engine."""
    try:
        connect().close()
    except SandboxError as fault:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(fault))


@pytest.fixture
def start(engine: None, tmp_path: Path) -> Iterator[Callable[..., DockerSandbox]]:
    """Start sandboxes from {path: content}; they are closed at the test's end."""
    opened: list[DockerSandbox] = []

    def start_one(files: dict[str, bytes] | None = None, **config: object) -> DockerSandbox:
        folder = Path(tempfile.mkdtemp(prefix="repo", dir=tmp_path))
        for name, data in (files or {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        opened.append(DockerSandbox.start(folder, SandboxConfig(**config)))  # type: ignore[arg-type]
        return opened[-1]

    yield start_one
    for sandbox in opened:
        sandbox.close()


@pytest.fixture(scope="module")
def sandbox(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    """One sandbox for a module's tests; its workspace holds `a.py` (CRLF) and `sub/b.txt`."""
    folder = tmp_path_factory.mktemp("repo")
    (folder / "a.py").write_bytes(b"x = 1\r\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_bytes(b"two")
    with DockerSandbox.start(folder, SandboxConfig(memory=1 << 30, workspace=64 << 20, scratch=64 << 20)) as opened:
        yield opened
