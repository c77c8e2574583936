"""A folder of this machine as a sandbox, for tests of what stands above the sandbox: no container, no isolation."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from sandboxes.protocol import CommandResult, WorkspacePathError


class FolderSandbox:
    """Every command runs in a fresh bash in the folder, which becomes a git repository if it is none.

    `python3` is the interpreter of the tests, so that pytest is there.
    """

    image_id = "folder"

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._private = Path(tempfile.mkdtemp())
        self._checkpoints: dict[str, Path] = {}
        if not (folder / ".git").exists():
            self._git("init", "-q")
        self._git("add", "-A")
        self._git("-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "--allow-empty", "-m", "base")

    @property
    def workspace(self) -> str:
        return str(self._folder)

    def run(self, command: str, *, timeout: float = 60.0, env: Mapping[str, str] | None = None) -> CommandResult:
        start = time.monotonic()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        plain = {"PATH": path, "HOME": str(self._private), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        variables = {**plain, **(env or {})}
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self._folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            code = None
        seconds = time.monotonic() - start
        return CommandResult(code, output.decode(errors="replace"), code is None, seconds=seconds)

    def read_bytes(self, path: str) -> bytes:
        return self._resolve(path).read_bytes()

    def write_bytes(self, path: str, data: bytes) -> None:
        target = self._resolve(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def list_files(self, path: str = ".") -> list[str]:
        top = self._resolve(path)
        files = [
            file for file in ([top] if top.is_file() else top.rglob("*")) if file.is_file() and not file.is_symlink()
        ]
        names = [file.relative_to(self._folder).as_posix() for file in files]
        return sorted(name for name in names if not name.startswith(".git/"))

    def put_private(self, name: str, data: bytes) -> str:
        (self._private / name).parent.mkdir(parents=True, exist_ok=True)
        (self._private / name).write_bytes(data)
        return str(self._private / name)

    def read_private(self, path: str, limit: int = 64 << 20) -> bytes | None:
        return Path(path).read_bytes()[:limit] if Path(path).exists() else None

    def checkpoint(self) -> str:
        token = str(len(self._checkpoints))
        copy = self._private / f"checkpoint-{token}"
        shutil.copytree(self._folder, copy, ignore=shutil.ignore_patterns(".git"))
        self._checkpoints[token] = copy
        return token

    def restore(self, token: str) -> None:
        for entry in self._folder.iterdir():
            if entry.name != ".git":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        shutil.copytree(self._checkpoints[token], self._folder, dirs_exist_ok=True)

    def diff(self) -> bytes:
        self._git("add", "-AN")
        return self._git("diff", "--binary")

    def tree(self) -> str:
        self._git("add", "-A", ".")
        return self._git("write-tree").decode().strip()

    def close(self) -> None:
        shutil.rmtree(self._private, ignore_errors=True)

    def _resolve(self, path: str) -> Path:
        target = (self._folder / path).resolve()
        if not target.is_relative_to(self._folder):
            raise WorkspacePathError(f"{path} leads outside the workspace")
        return target

    def _git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", "-C", str(self._folder), *arguments], check=True, capture_output=True).stdout
