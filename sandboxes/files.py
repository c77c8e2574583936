"""Files of the workspace and beside it, under one policy for paths.

Every path is resolved inside the container before use; what leaves the workspace is refused.
"""

from __future__ import annotations

import posixpath
import secrets
import shlex

from sandboxes.control import MAX_OUTPUT, Control, TooLarge, last_line
from sandboxes.protocol import SandboxError, WorkspacePathError

DRAFT = ".clover-draft-"  # names of files being written; never part of a difference
_ABSENT, _FOLDER, _SPECIAL, _DENIED, _OUTSIDE, _GIT = 61, 62, 63, 64, 65, 66
_CHECK_FILE = f'[ -d "$p" ] && exit {_FOLDER}; [ -e "$p" ] && [ ! -f "$p" ] && exit {_SPECIAL};'


class Files:
    """Reads and writes single files through the control shell."""

    def __init__(self, control: Control, workspace: str, private: str) -> None:
        self._control = control
        self._workspace = workspace
        self._private = private

    def read_bytes(self, path: str) -> bytes:
        """See the protocol."""
        try:
            status, data = self._control.do(
                f'{self._resolved(path)} {_CHECK_FILE} [ -e "$p" ] || exit {_ABSENT}; '
                f'[ -r "$p" ] || exit {_DENIED}; exec cat -- "$p"'
            )
        except TooLarge:
            raise WorkspacePathError(f"{path} is larger than {MAX_OUTPUT >> 20} MiB") from None
        self._judge(path, status, data)
        return data

    def write_bytes(self, path: str, data: bytes) -> None:
        """See the protocol."""
        resolved = self._resolved(path)
        if path.endswith("/"):
            raise IsADirectoryError(path)
        draft = f"{DRAFT}{secrets.token_hex(8)}"
        status, said = self._control.do(
            f'{resolved} {_CHECK_FILE} d=${{p%/*}}; mkdir -p -- "$d" || exit {_DENIED}; d=$d/{draft}; '
            'cat > "$d" && { [ ! -e "$p" ] || chmod --reference="$p" -- "$d"; } && mv -f -- "$d" "$p" || '
            f'{{ rm -f -- "$d"; exit {_DENIED}; }}',
            data=data,
        )
        self._judge(path, status, said)

    def list_files(self, path: str = ".") -> list[str]:
        """See the protocol."""
        status, data = self._control.do(
            f'{self._resolved(path)} [ -e "$p" ] || exit {_ABSENT}; '
            'find "$p" -name .git -prune -o -type f -print0 2>/dev/null; exit 0'
        )
        self._judge(path, status, data)
        cut = len(self._workspace) + 1
        return sorted(name.decode("utf-8", "surrogateescape")[cut:] for name in data.split(b"\0") if name)

    def put_private(self, name: str, data: bytes) -> str:
        """See the protocol."""
        path = f"{self._private}/files/{name}"
        target = shlex.quote(path)
        self._control.must(f'mkdir -p -- "$(dirname {target})" && cat > {target}', data=data, doing=f"placing {name}")
        return path

    def drop_private(self, name: str) -> None:
        """Remove a helper file where it is there. Raises SandboxError."""
        self._control.must(f"rm -f -- {shlex.quote(f'{self._private}/files/{name}')}", doing=f"removing {name}")

    def read_private(self, path: str, limit: int = MAX_OUTPUT) -> bytes | None:
        """See the protocol."""
        target = shlex.quote(path)
        try:
            status, data = self._control.do(f"[ -f {target} ] && exec cat -- {target}", limit=limit)
        except TooLarge:
            return None
        return None if status else data

    def _resolved(self, path: str) -> str:
        """Script that sets p to the resolved path, or exits. Raises WorkspacePathError for what no file can be."""
        if not path or "\0" in path:
            raise WorkspacePathError("a path must not be empty or hold a NUL byte")
        try:
            parts = path.encode("utf-8", "surrogateescape").split(b"/")
        except UnicodeEncodeError:
            raise WorkspacePathError("a path must be valid Unicode") from None
        if path.startswith("~"):
            raise WorkspacePathError(f"{path}: give a path inside the workspace, relative to it")
        joined = posixpath.normpath(posixpath.join(self._workspace, path))
        if any(len(part) > 255 for part in parts) or len(joined.encode("utf-8", "surrogateescape")) > 4000:
            raise WorkspacePathError(f"{path[:60]}...: the name is too long")
        if joined != self._workspace and not joined.startswith(self._workspace + "/"):
            raise WorkspacePathError(f"{path} is outside the workspace {self._workspace}")
        return (
            f"p=$(realpath -m -- {shlex.quote(joined)}; printf x) || exit {_OUTSIDE}; p=${{p%?x}}; "  # ends in any byte
            f'case "$p/" in {self._workspace}/.git/*|{self._workspace}/*/.git/*) exit {_GIT};; '
            f"{self._workspace}/*) ;; *) exit {_OUTSIDE};; esac;"
        )

    def _judge(self, path: str, status: int, said: bytes) -> None:
        if status == _ABSENT:
            raise FileNotFoundError(path)
        if status == _FOLDER:
            raise IsADirectoryError(path)
        if status == _OUTSIDE:
            raise WorkspacePathError(f"{path} leads outside the workspace {self._workspace}")
        if status == _GIT:
            raise WorkspacePathError(f"{path} belongs to git: use git commands")
        if status == _SPECIAL:
            raise WorkspacePathError(f"{path} is no regular file")
        if status and b"No space left" in said:
            raise SandboxError("the sandbox's workspace is full: give it more room")
        if status:
            raise WorkspacePathError(f"{path}: {last_line(said) or 'permission denied'}")
