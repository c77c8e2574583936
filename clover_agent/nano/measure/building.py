"""Making a set of bug tasks, the packages taking turns."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from clover_agent.nano.measure.breaking import Bench, PackageBugs, Verdicts
from clover_agent.nano.measure.packages import PACKAGES, Package
from clover_agent.nano.measure.tasks import Task, write_task


def download(archives: Path) -> None:
    """Fetch the packages' source distributions with pip, without installing anything of them."""
    archives.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if not (archives / f"{package.archive}.tar.gz").exists():
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
            done = subprocess.run([*command, "-d", str(archives), f"{package.name}=={package.version}"], check=False)
            print(f"{package.archive}: {'downloaded' if done.returncode == 0 else 'not available'}", flush=True)


def build(
    folder: Path, archives: Path, python: str, *, count: int, seed: int, workers: int, only: tuple[str, ...] = ()
) -> list[Task]:
    """Write `count` tasks into `folder`. `python` runs the packages' tests; `only` names packages. Prints what it does.

    The same seed, archives and interpreter give the same tasks, whatever the number of workers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    verdicts = Verdicts(folder / "tried.jsonl")
    chosen = [package for package in PACKAGES if not only or package.name in only]
    made: list[Task] = []
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(workers) as pool:
        bench = Bench(archives, Path(scratch), python, seed)
        makers = [maker for maker in pool.map(lambda package: _prepare(package, bench, verdicts), chosen) if maker]
        streams = [(maker, maker.tasks()) for maker in makers]
        while streams and len(made) < count:
            drawn = list(pool.map(lambda stream: next(stream[1], None), streams))
            for (maker, _), found in zip(streams, drawn, strict=True):
                if found and len(made) < count:
                    write_task(folder, found[0], maker.base, found[1])
                    made.append(found[0])
            streams = [stream for stream, found in zip(streams, drawn, strict=True) if found]
            print(f"{len(made)} tasks of {count} from {len(streams)} packages", flush=True)
    return made


def _prepare(package: Package, bench: Bench, verdicts: Verdicts) -> PackageBugs | None:
    try:
        return PackageBugs(package, bench, verdicts)
    except RuntimeError as error:
        print(f"left out: {error}", flush=True)
        return None
