"""What the workspace was: checkpoints, and its difference from the start.

The start is kept as a git tree in a repository of its own outside the workspace, whose index, configuration and
attributes are not the user's: bytes are compared as they are, whatever `.gitattributes` or the model's settings say.
"""

from __future__ import annotations

import secrets

from sandboxes.control import Control, TooLarge, last_line
from sandboxes.files import DRAFT
from sandboxes.protocol import SandboxError

_HIDDEN = ".clover-nested-git"
_NEVER = (
    "__pycache__/", "*.py[co]", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", "*.egg-info/", f"{DRAFT}*", _HIDDEN,
    "build/lib/", "build/bdist.*/", ".coverage", ".coverage.*", "htmlcov/", ".hypothesis/", ".tox/", ".nox/",
)  # fmt: skip
_SETTINGS = (
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.compression=0",
    "core.fsync=none",
    "advice.addEmbeddedRepo=false",
)
_DIFF = (
    "diff --cached --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv --no-relative "
    "--src-prefix=a/ --dst-prefix=b/ -U3"
)


class History:
    """Checkpoints and differences of one workspace."""

    def __init__(self, control: Control, workspace: str, private: str) -> None:
        self._control = control
        self._workspace = workspace
        self._private = private
        self._base = ""

    def begin(self) -> None:
        """Remember the workspace as it is at the start, ignored files included."""
        git = f"{self._private}/git"
        never = " ".join(f"'{name}'" for name in _NEVER)
        said = self._control.must(
            f"set -e; mkdir -p {self._private}/files {self._private}/saved; {_git_environment(self._private)} "
            f"{self._git('init -q --template=')}; mkdir -p {git}/info; printf '%s\\n' {never} >{git}/info/exclude; "
            f"echo '* -text -filter -ident -working-tree-encoding !diff !eol' >{git}/info/attributes; "
            f"cd {self._workspace}; {self._git('add -A -f .')}; {self._git('write-tree')}",
            doing="remembering the workspace",
        )
        self._base = said.decode().split()[-1]

    def checkpoint(self) -> str:
        """See the protocol."""
        token = secrets.token_hex(8)
        saved = f"{self._private}/saved/{token}"
        self._control.must(
            f"cp -a {self._workspace} {saved} || {{ rm -rf {saved}; exit 1; }}", doing="saving a checkpoint"
        )
        return token

    def restore(self, token: str) -> None:
        """See the protocol. Nothing else may run meanwhile."""
        if not token.isalnum():
            raise ValueError(f"not a checkpoint: {token!r}")
        saved = f"{self._private}/saved/{token}"
        self._control.must(
            f"[ -d {saved} ] || {{ echo no such checkpoint; exit 1; }}; cd {self._workspace} && chmod u+rwx . && "
            "{ find . -mindepth 1 -delete 2>/dev/null || { chmod -R u+rwX . && find . -mindepth 1 -delete; }; } && "
            f"cp -a {saved}/. .",
            doing="going back to a checkpoint",
        )

    def diff(self) -> bytes:
        """See the protocol."""
        try:
            return self._staged(f"{_DIFF} {self._base}")
        except TooLarge as fault:
            raise SandboxError(f"the workspace's changes are too large ({fault})") from None

    def tree(self) -> str:
        """See the protocol."""
        return self._staged("write-tree").decode().strip()

    def _staged(self, command: str) -> bytes:
        """Output of a git command on an index that holds the workspace as it is now.

        The index starts as a copy of the first one with its time, by which git knows the entries it must re-read.
        Files that can't be read are made readable; repositories inside the workspace count as plain folders.
        """
        index, log = f"{self._private}/index", f"{self._private}/log"
        look = (
            "flags=$(find . -path ./.git -prune -o -name .git -printf g -prune "
            "-o -type d ! -perm -u+rx -printf m -prune -o -type f ! -perm -u+r -printf m)"
        )
        status, data = self._control.do(
            f"{_git_environment(self._private)} cd {self._workspace} || exit 1; "
            f"rm -f {index}; cp -p {self._private}/git/index {index} || exit 1; export GIT_INDEX_FILE={index}; "
            f"{look}; case $flags in *m*) chmod -R u+rwX .; {look};; esac; "
            f"case $flags in *g*) {_rename('.git', _HIDDEN)};; esac; "
            f"{self._git('add -A .')} >{log} 2>&1; added=$?; "
            f"case $flags in *g*) {_rename(_HIDDEN, '.git')};; esac; "
            f"[ $added = 0 ] && {self._git(command)} 2>{log} || {{ cat {log}; exit 1; }}"
        )
        if status:
            raise SandboxError(f"the workspace's changes can't be read: {last_line(data)}")
        return data

    def _git(self, command: str) -> str:
        settings = " ".join(f"-c {setting}" for setting in _SETTINGS)
        return f"git --git-dir={self._private}/git --work-tree={self._workspace} {settings} {command}"


def _git_environment(private: str) -> str:
    """Nobody's git configuration but ours, whatever the commands put into the home folder."""
    return f"export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_ATTR_NOSYSTEM=1 HOME={private};"


def _rename(old: str, new: str) -> str:
    return f"find . -mindepth 2 -name {old} -prune -execdir mv {{}} {new} \\;"
