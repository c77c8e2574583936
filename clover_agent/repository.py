"""The user's repository: copied without touching it, and given a patch only when asked.

A copy holds the files of the working tree as they are (tracked ones with uncommitted changes, and untracked ones that
are not ignored) in a fresh git repository of one commit: no history, no remotes, no hooks, no configuration.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from clover_agent.errors import UsageError

_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",  # reading a repository must not rewrite its index
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_PLAIN = (
    *("-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"),
    *("-c", "core.fsmonitor=false"),  # a repository's own configuration may name a program there
)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BYTES = "* -text -filter -ident -working-tree-encoding !diff !eol\n"  # attributes of a copy: content as it is


@dataclass(frozen=True)
class Copy:
    """folder: the copy. base: its commit's tree hash. dirty: the user's tree had uncommitted changes.

    left_out: folders that are git repositories of their own, but no submodules with their files there.
    """

    folder: Path
    base: str
    dirty: bool
    left_out: tuple[str, ...] = ()


def check_repository(path: Path) -> Path:
    """The top folder of the repository at `path`. Raises UsageError for anything else."""
    try:
        folder = path.is_dir()
    except OSError as fault:
        raise UsageError(f"{path} can't be read: {fault.strerror}") from None
    if not folder:
        raise UsageError(f"{path} is not a folder: give the path of a git repository")
    if shutil.which("git") is None:
        raise UsageError("git is not installed: install it first")
    inside = _git(path, "rev-parse", "--is-bare-repository", "--show-toplevel", check=False)
    bare, _, shown = os.fsdecode(inside.stdout).partition("\n")
    if bare == "true":
        raise UsageError(f"{path} is a bare repository: give one with a working tree")
    if inside.returncode or not shown:
        said = inside.stderr.decode("utf-8", "replace")
        if "dubious ownership" in said:
            raise UsageError(f"{path} belongs to another user: run as its owner, or mark it as a git safe.directory")
        raise UsageError(f"{path} is not a git repository: run `git init` and commit there first")
    top = Path(shown.removesuffix("\n"))
    if top.resolve() != path.resolve():
        raise UsageError(f"{path} lies inside the repository {top}: give that folder")
    if _git(path, "rev-parse", "--verify", "-q", "HEAD", check=False).returncode:
        raise UsageError(f"{path} has no commit yet: commit its files first")
    return top


def copy_repository(path: Path, target: Path) -> Copy:
    """Copy the working tree of the repository at `path` into the new folder `target`. Raises UsageError."""
    top = check_repository(path)
    target.mkdir(parents=True)
    left_out: list[str] = []
    for name in _files(top):
        if name.endswith("/") or _is_bare_submodule(top / name):
            left_out.append(name.rstrip("/"))
            continue
        source, place = top / name, target / name
        if not os.path.lexists(source) or _behind_link(top, name):
            continue  # deleted in the working tree, or its folder was replaced by a link
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            if source.is_symlink() or source.is_file():
                shutil.copy2(source, place, follow_symlinks=False)
        except OSError as fault:
            if fault.errno in _NO_ROOM:
                raise OSError(fault.errno, f"{os.strerror(fault.errno)} below {target.parent} for the copy") from None
            raise UsageError(f"{source} can't be read: {fault.strerror}") from None
    dirty = bool(_git(top, "status", "--porcelain", "-z").stdout)
    return Copy(target, commit_all(target), dirty, tuple(left_out))


def commit_all(folder: Path) -> str:
    """Make `folder` a git repository of one commit that holds everything in it; returns the tree's hash."""
    _git(folder, "init", "-q", "--template=", "-b", "main")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text(_BYTES, encoding="ascii")
    _git(folder, "add", "-A", "-f", ".")
    who = ("-c", "user.name=clover-agent", "-c", "user.email=agent@localhost", "-c", "commit.gpgsign=false")
    _git(folder, *who, "commit", "-q", "--allow-empty", "--no-verify", "-m", "base")
    return _git(folder, "rev-parse", "HEAD^{tree}").stdout.decode().strip()


def apply_patch(folder: Path, patch: bytes, *, exclude: Sequence[str] = ()) -> str:
    """Apply a patch to `folder`; returns "" or, where it does not apply, git's reason (then nothing changed)."""
    if not patch.strip():
        return ""
    options = ["--binary", "--whitespace=nowarn", *(f"--exclude={_literal(name)}" for name in exclude)]
    for check in (["--check"], []):
        done = _git(folder, "apply", *options, *check, "-", check=False, given=patch)
        if done.returncode:
            return " ".join(done.stderr.decode("utf-8", "replace").split())[:300]
    return ""


def changed_files(folder: Path, patch: bytes) -> list[str]:
    """Paths that a patch touches, both sides of a rename."""
    done = _git(folder, "apply", "--numstat", "-z", "--binary", "-", check=False, given=patch)
    fields = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    names: list[str] = []
    for entry in fields:
        parts = entry.split("\t", 2)
        name = parts[2] if len(parts) == 3 else entry
        if name:
            names.append(name)
    return sorted(set(names))


def diff_folders(folder: Path) -> bytes:
    """The patch from a copy's commit to its files now, new files included."""
    _git(folder, "add", "-A", ".")
    return _git(folder, "diff", "--cached", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD").stdout


def _files(top: Path) -> Iterator[str]:
    tracked = _git(top, "ls-files", "-z", "--cached", "--recurse-submodules").stdout
    others = _git(top, "ls-files", "-z", "--others", "--exclude-standard").stdout
    seen: set[str] = set()
    for name in os.fsdecode(tracked + others).split("\0"):
        if name and name not in seen:
            seen.add(name)
            yield name


def _is_bare_submodule(place: Path) -> bool:
    """Whether a listed name is that of a submodule without its files: git lists the files of the others."""
    return place.is_dir() and not place.is_symlink() and ((place / ".git").exists() or not any(place.iterdir()))


def _behind_link(top: Path, name: str) -> bool:
    return any((top / parent).is_symlink() for parent in PurePath(name).parents)


def _literal(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _git(
    folder: Path, *arguments: str, check: bool = True, given: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _ENVIRONMENT
    safe = os.environ.get("GIT_CONFIG_GLOBAL", str(Path(os.environ.get("HOME", "")) / ".gitconfig"))
    if Path(safe).is_absolute() and os.access(safe, os.R_OK):
        environment["GIT_CONFIG_GLOBAL"] = safe  # safe.directory is only honoured there
    done = subprocess.run(
        ["git", *_PLAIN, "-C", str(folder), *arguments], input=given, capture_output=True, check=False, env=environment
    )
    if check and done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
        if "No space left" in said or "File too large" in said:
            raise OSError(errno.ENOSPC, f"git {arguments[0]} has no room in {folder}")
        raise UsageError(f"git {arguments[0]} failed in {folder}: {said}")
    return done
