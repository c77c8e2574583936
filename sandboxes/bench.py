"""`python -m sandboxes.bench`: how long a sandbox takes, and whether it leaves the engine as it was.

Prints a line a figure; nothing is judged here. `--cycles 200` is the long one.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sandboxes.client import connect
from sandboxes.docker_sandbox import DockerSandbox
from sandboxes.janitor import LABEL, owner

if TYPE_CHECKING:
    from docker import DockerClient

T = TypeVar("T")
_COPIED = 50_000_000  # bytes, in files of 50 kB


def main() -> None:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m sandboxes.bench", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="starts to measure (5)")
    parser.add_argument("--flood", type=int, default=1 << 30, help="bytes a command prints without a newline (1 GiB)")
    parser.add_argument("--cycles", type=int, default=0, help="starts and stops, with what they leave behind (0)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clover-bench-") as temporary:
        folder = Path(temporary)
        (folder / "a").write_text("a")
        if options.repeats:
            _times(folder, options.repeats)
        if options.flood:
            _flood(folder, options.flood)
        if options.cycles:
            _cycles(folder, options.cycles)


def _times(folder: Path, repeats: int) -> None:
    ready, first, closed = [], [], []
    for _ in range(repeats):
        seconds, sandbox = _timed(lambda: DockerSandbox.start(folder))
        ready.append(seconds)
        first.append(_timed(lambda box=sandbox: box.run("true"))[0])
        closed.append(_timed(sandbox.close)[0])
    _say("container ready", ready)
    _say("first command", first)
    _say("closed", closed)
    with DockerSandbox.start(folder) as sandbox:
        sandbox.run("true")
        _say("command round trip", [_timed(lambda: sandbox.run("true"))[0] for _ in range(50)])
        with_exec = [_timed(lambda: _exec(sandbox))[0] for _ in range(5)]
        _say("the same as an exec of its own", with_exec)
        _say("checkpoint", [_timed(sandbox.checkpoint)[0] for _ in range(5)])
    with tempfile.TemporaryDirectory(prefix="clover-bench-") as large:
        for number in range(_COPIED // 50_000):
            (Path(large) / f"{number}.bin").write_bytes(os.urandom(50_000))
        seconds, sandbox = _timed(lambda: DockerSandbox.start(Path(large)))
        sandbox.close()
        print(f"copy-in of 50 MB: {seconds - statistics.median(ready):.2f} s beyond a start, {seconds:.2f} s with it")


def _exec(sandbox: DockerSandbox) -> None:
    client = connect()
    made = client.api.exec_create(sandbox.container_id, ["true"])
    client.api.exec_start(made["Id"])
    client.close()


def _flood(folder: Path, size: int) -> None:
    with DockerSandbox.start(folder) as sandbox:
        sandbox.run("true")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, result = _timed(lambda: sandbox.run(f"head -c {size} /dev/zero | tr '\\0' x", timeout=600))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"{size >> 20} MiB without a newline: {seconds:.1f} s, {grown / 1024:.1f} MiB of memory more", end="")
        print(f", {result.omitted_bytes} bytes left out")


def _cycles(folder: Path, count: int) -> None:
    client = connect()
    before = _everything(client)
    started = time.monotonic()
    for _ in range(count):
        with DockerSandbox.start(folder) as sandbox:
            sandbox.run("true")
    seconds = time.monotonic() - started
    print(f"{count} starts and stops: {seconds / count:.2f} s each")
    print(f"containers of this process, volumes, networks, images: {before} before, {_everything(client)} after")
    client.close()


def _everything(client: DockerClient) -> tuple[int, int, int, int]:
    api = client.api
    ours = api.containers(all=True, filters={"label": f"{LABEL}={owner()}"})
    return len(ours), len(api.volumes()["Volumes"] or []), len(api.networks()), len(api.images(all=True))


def _timed(do: Callable[[], T]) -> tuple[float, T]:
    started = time.monotonic()
    result = do()
    return time.monotonic() - started, result


def _say(what: str, seconds: list[float]) -> None:
    low, high = min(seconds) * 1000, max(seconds) * 1000
    print(f"{what}: median {statistics.median(seconds) * 1000:.1f} ms ({low:.1f} to {high:.1f}, n={len(seconds)})")


if __name__ == "__main__":
    main()
