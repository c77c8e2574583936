"""Files of the workspace: read, written, remembered and compared through the sandbox's own shell.

Every path is resolved inside the container before use; what leaves the workspace is refused.
"""

from __future__ import annotations

import base64
import posixpath
import secrets
import shlex

from sandboxes.protocol import SandboxError, WorkspacePathError
from sandboxes.shell import Shell, ShellResult

MAX_FILE = 64 << 20
_TIMEOUT = 120.0
_NOT_SOURCE = ("__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", "*.egg-info/")


class _Whole:
    """All output, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self.limit = limit
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if self.total > self.limit + 4096:
            raise SandboxError(f"a file in the sandbox exceeds {self.limit} bytes")
        self.data += data

    def end(self) -> bytes:
        return bytes(self.data[-4096:])

    def cut(self, count: int) -> None:
        del self.data[-count:]


class Files:
    """The file half of the sandbox, over a shell that is not the model's."""

    def __init__(self, control: Shell, workspace: str, private: str) -> None:
        self._control = control
        self._workspace = workspace
        self._private = private

    def read_bytes(self, path: str) -> bytes:
        """See the protocol."""
        real = self._resolve(path)
        status, data = self._do(
            f'p={shlex.quote(real)}; [ -d "$p" ] && return 21; [ -e "$p" ] || return 2; cat -- "$p"'
        )
        if status == 21:
            raise IsADirectoryError(path)
        if status == 2:
            raise FileNotFoundError(path)
        if status:
            raise PermissionError(path)
        return data

    def write_bytes(self, path: str, data: bytes) -> None:
        """See the protocol."""
        real = self._resolve(path)
        if real == self._workspace or path.endswith("/"):
            raise IsADirectoryError(path)
        folder = posixpath.dirname(real)
        draft = f"{folder}/.clover-{secrets.token_hex(8)}"
        coded = base64.b64encode(data).decode()
        status, said = self._do(
            f'p={shlex.quote(real)}; d={shlex.quote(draft)}; [ -d "$p" ] && return 21; '
            f"mkdir -p -- {shlex.quote(folder)} || return 20; "
            f'printf %s {coded} | base64 -d > "$d" && '
            '{ [ ! -e "$p" ] || chmod --reference="$p" -- "$d"; } && mv -f -- "$d" "$p" || '
            '{ rm -f -- "$d"; return 20; }'
        )
        if status == 21:
            raise IsADirectoryError(path)
        if status:
            if b"No space left" in said:
                raise SandboxError("the sandbox's workspace is full: raise its size")
            raise WorkspacePathError(f"{path} can't be written: {_last_line(said)}")

    def list_files(self, path: str = ".") -> list[str]:
        """See the protocol."""
        real = self._resolve(path)
        status, data = self._do(
            f"cd {shlex.quote(self._workspace)} && find {shlex.quote(real)} -name .git -prune -o -type f -print0"
        )
        if status:
            raise FileNotFoundError(path)
        cut = len(self._workspace) + 1
        return sorted(name.decode("utf-8", "surrogateescape")[cut:] for name in data.split(b"\0") if name)

    def put_private(self, name: str, data: bytes) -> str:
        """See the protocol."""
        path = f"{self._private}/files/{name}"
        coded = base64.b64encode(data).decode()
        folder = shlex.quote(posixpath.dirname(path))
        self._must(f"mkdir -p {folder} && printf %s {coded} | base64 -d > {shlex.quote(path)}")
        return path

    def read_private(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        """See the protocol."""
        status, data = self._do(f"[ -f {shlex.quote(path)} ] && cat -- {shlex.quote(path)}", limit)
        return None if status else data

    def begin(self) -> None:
        """Remember the workspace as it is at the start, for `diff`."""
        ignored = "\n".join(_NOT_SOURCE)
        self._must(
            f"mkdir -p {self._private}/files && {self._git('init -q')} && "
            f"printf '%s\\n' {shlex.quote(ignored)} > {self._private}/git/info/exclude && "
            f"{self._git('add -A -f .')} && {self._git('commit -q --allow-empty --no-verify -m base')}"
        )

    def checkpoint(self) -> str:
        """See the protocol."""
        token = secrets.token_hex(8)
        self._must(f"mkdir -p {self._private}/saved && cp -a {self._workspace} {self._private}/saved/{token}")
        return token

    def restore(self, token: str) -> None:
        """See the protocol."""
        if not token.isalnum():
            raise ValueError(f"not a checkpoint: {token!r}")
        saved = f"{self._private}/saved/{token}"
        self._must(
            f"[ -d {saved} ] && cd {self._workspace} && find . -mindepth 1 -delete && "
            f"cp -a {saved}/. {self._workspace}/"
        )

    def diff(self) -> bytes:
        """See the protocol."""
        self._must(f"rm -f {self._private}/index && cp {self._private}/git/index {self._private}/index")
        status, data = self._do(
            f"export GIT_INDEX_FILE={self._private}/index; {self._git('add -A .')} >/dev/null 2>&1; "
            f"{self._git('diff --cached --binary --no-color --no-ext-diff --no-textconv HEAD')}; unset GIT_INDEX_FILE"
        )
        if status:
            raise SandboxError(f"the workspace's changes can't be read: {_last_line(data)}")
        return data

    def tree(self) -> str:
        """Git's tree hash of the workspace now: the evidence of what was tested."""
        self._must(f"rm -f {self._private}/index && cp {self._private}/git/index {self._private}/index")
        status, data = self._do(
            f"export GIT_INDEX_FILE={self._private}/index; {self._git('add -A .')} >/dev/null 2>&1; "
            f"{self._git('write-tree')}; unset GIT_INDEX_FILE"
        )
        if status:
            raise SandboxError(f"the workspace can't be hashed: {_last_line(data)}")
        return data.decode().strip()

    def _git(self, command: str) -> str:
        return (
            f"git --git-dir={self._private}/git --work-tree={self._workspace} -C {self._workspace} "
            "-c core.autocrlf=false -c core.safecrlf=false -c core.fileMode=true -c core.hooksPath=/dev/null "
            f"-c user.name=clover-agent -c user.email=agent@localhost -c gc.auto=0 {command}"
        )

    def _resolve(self, path: str) -> str:
        """Absolute, resolved form of a workspace path. Raises WorkspacePathError."""
        if not path or "\0" in path:
            raise WorkspacePathError("a path must not be empty or hold a NUL byte")
        if path.startswith("~"):
            raise WorkspacePathError(f"{path}: give a path inside the workspace, relative to it")
        joined = posixpath.normpath(posixpath.join(self._workspace, path))
        if any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in joined.split("/")) or len(joined) > 4000:
            raise WorkspacePathError(f"{path[:60]}...: the name is too long")
        if not self._inside(joined):
            raise WorkspacePathError(f"{path} is outside the workspace {self._workspace}")
        status, data = self._do(f"realpath -zm -- {shlex.quote(joined)}")
        real = data.rstrip(b"\0").decode("utf-8", "surrogateescape")
        if status or not self._inside(real):
            raise WorkspacePathError(f"{path} leads outside the workspace {self._workspace}")
        if "/.git/" in f"{real}/"[len(self._workspace) :]:
            raise WorkspacePathError(f"{path} belongs to git: use git commands")
        return real

    def _inside(self, path: str) -> bool:
        return path == self._workspace or path.startswith(self._workspace + "/")

    def _do(self, script: str, limit: int = MAX_FILE) -> tuple[int, bytes]:
        """Status and output of a script in the control shell; it is the body of a function and may `return`."""
        result, data = self._control_run(script, limit)
        if result.died:  # the model may have killed every process of its user, this shell among them
            result, data = self._control_run(script, limit)
        if result.timed_out:
            raise SandboxError("the sandbox does not answer: start again")
        return result.exit_code if result.exit_code is not None else 1, data

    def _control_run(self, script: str, limit: int) -> tuple[ShellResult, bytes]:
        sink = _Whole(limit)
        result = self._control.run(f"__clover_do() {{ {script}\n}}; __clover_do 2>&1", sink, _TIMEOUT)
        return result, bytes(sink.data)

    def _must(self, script: str) -> bytes:
        status, data = self._do(script)
        if status:
            if b"No space left" in data:
                raise SandboxError("the sandbox's memory file system is full: raise the workspace size")
            raise SandboxError(f"the sandbox's own command failed: {_last_line(data)}")
        return data


def _last_line(data: bytes) -> str:
    return " ".join(data.decode("utf-8", "replace").strip().splitlines()[-1:])[:200]
