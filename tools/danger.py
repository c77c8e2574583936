"""What in a shell script may do harm that nobody can take back."""

from __future__ import annotations

import re

from tools.shellparse import Script, Simple

_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "python", "python3", "perl", "ruby", "node"}
_FETCHERS = {"curl", "wget", "fetch", "nc", "ncat"}
_WIPERS = {
    "mkfs",
    "shred",
    "wipefs",
    "fdisk",
    "parted",
    "sgdisk",
    "blkdiscard",
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
}
_SECRETS = re.compile(
    r"(^|/)(\.ssh|\.gnupg|\.aws|\.kube|\.netrc|\.git-credentials|\.pgpass|\.docker/config\.json)(/|$)|/etc/(shadow|sudoers)"
)
_ENGINES = {"docker", "podman", "nerdctl", "kubectl"}
_FETCHED = re.compile(r"(?:[$<]\(|`)\s*(?:curl|wget)\b")
_WIDE = re.compile(r"(/|/\*|~|~/|~/\*|\$\{?HOME\}?/?\*?|\.|\./|\*|\.\.(/.*)?|\.\*)")


def dangers(script: Script) -> tuple[str, ...]:
    """One reason for each command that destroys, leaks or takes over; none where nothing of the kind is seen."""
    found = [reason for command in script.commands for reason in _of(command)]
    if script.forks:
        found.append("starts copies of itself without end")
    return tuple(dict.fromkeys(found))


def _of(command: Simple) -> list[str]:
    name, words = command.name, command.words[1:]
    plain = [word for word in words if not word.startswith("-")]
    reasons = []
    if name == "rm" and (_flag(words, "r") or _flag(words, "R") or _long(words, "--recursive")):
        wide = any(_WIDE.fullmatch(word) or re.fullmatch(r"/[^/]+/?\*?", word) for word in plain)
        reasons.append("deletes everything below a wide place" if wide else "deletes folders")
    if name == "git":
        reasons += _git(words)
    if name == "dd" and any(word.startswith("of=") for word in words):
        reasons.append("writes raw data over a file or device")
    if name in _WIPERS or name.startswith("mkfs."):
        reasons.append("destroys a disk or stops the machine")
    if name in {"chmod", "chown", "chgrp"} and (_flag(words, "R") or _long(words, "--recursive")):
        reasons.append("changes rights or owners of whole folders")
    inner = (
        [word for word in words if _FETCHED.search(word)] if name in _SHELLS or name in {"eval", "source", "."} else []
    )
    if inner or (name in _SHELLS and _FETCHERS & set(command.input)):
        reasons.append("runs what was just downloaded")
    if name in {"sudo", "doas", "su"}:
        reasons.append("asks for the rights of another user")
    if name in _ENGINES or any("docker.sock" in word for word in words):
        reasons.append("uses a container engine")
    if (name == "kill" and "-1" in words[1:]) or name in {"killall", "pkill"}:
        reasons.append("ends processes that are not its own")
    if (
        (name in {"env", "printenv"} and not plain)
        or (name == "set" and not words)
        or (name == "export" and words == ("-p",))
    ):
        reasons.append("shows every variable, keys among them")
    if name == "find" and "-delete" in words:
        reasons.append("deletes what it finds")
    if name in {"mv", "truncate"} and any(word.startswith(("/", "~")) for word in plain):
        reasons.append("moves or empties files outside the repository")
    if any(_SECRETS.search(word) for word in (*words, *command.writes)):
        reasons.append("touches keys or passwords")
    if any(target.startswith(("/", "~", "$")) and target != "/dev/null" for target in command.writes):
        reasons.append("writes a file outside the repository")
    return reasons


def _git(words: tuple[str, ...]) -> list[str]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in {"-C", "-c", "--git-dir", "--work-tree"} else rest[1:]
    if not rest:
        return []
    verb, given = rest[0], tuple(rest[1:])
    plain = [word for word in given if not word.startswith("-")]
    lost = (
        (verb == "reset" and "--hard" in given)
        or (verb == "clean" and (_flag(given, "f") or _long(given, "--force")))
        or (verb == "checkout" and ("--" in given or "." in plain or _flag(given, "f") or "--force" in given))
        or (verb == "checkout" and any("." in word or "/" in word for word in plain))
        or (verb == "switch" and (_flag(given, "f") or "--discard-changes" in given))
        or (verb == "restore" and ("--staged" not in given or "--worktree" in given))
        or (verb == "stash" and (not plain or plain[0] in {"push", "save", "drop", "clear", "pop"}))
        or (verb == "rm" and "--cached" not in given)
    )
    if lost:
        return ["throws away uncommitted work"]
    forced = _flag(given, "f") or any(word.startswith(("--force", "+")) for word in given)
    if verb == "push":
        return ["overwrites a remote's history"] if forced else ["sends commits to a remote"]
    if (verb == "branch" and _flag(given, "D")) or verb in {"filter-branch", "gc", "prune", "update-ref"}:
        return ["rewrites or drops history"]
    return ["changes git's configuration"] if verb == "config" and len(plain) > 1 else []


def _flag(words: tuple[str, ...], letter: str) -> bool:
    return any(re.fullmatch(r"-[A-Za-z]+", word) and letter in word for word in words)


def _long(words: tuple[str, ...], name: str) -> bool:
    return any(len(word) > 4 and name.startswith(word) for word in words)
