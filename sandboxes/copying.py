"""A folder of this machine into a sandbox's workspace."""

from __future__ import annotations

import mmap
import tarfile
import tempfile
from pathlib import Path

from sandboxes.control import Control
from sandboxes.protocol import SandboxError


def copy_in(control: Control, folder: Path, workspace: str, private: str) -> None:
    """Unpack `folder` into the workspace as the commands' user, without `.git` below the top. Raises SandboxError."""
    try:
        with tempfile.TemporaryFile() as packed:
            with tarfile.open(fileobj=packed, mode="w") as tar:
                for child in sorted(folder.iterdir()):
                    tar.add(child, child.name, filter=_portable)
            packed.flush()
            with mmap.mmap(packed.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
                control.must(
                    f"mkdir -p {private}; tar -xf - -C {workspace} 2>{private}/log || "
                    f"{{ grep -m1 'No space left' {private}/log || tail -n1 {private}/log; exit 1; }}",
                    data=view,
                    doing="copying the files in",
                )
    except OSError as fault:
        raise SandboxError(f"the files of {folder} can't be copied: {fault.strerror or fault}") from None


def _portable(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "/.git/" in f"{member.name}/" or member.isdev():
        return None
    member.uid = member.gid = 1000
    member.uname = member.gname = "agent"
    member.mode |= 0o700 if member.isdir() else 0o400
    return member
