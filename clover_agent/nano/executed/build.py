"""Collect executed failures: python -m clover_agent.nano.executed.build CORPUS OUT [--seconds N] [--part I/N]."""

from __future__ import annotations

import argparse
import gc
import json
import lzma
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from clover_agent.nano.corpus import Module, read_corpus
from clover_agent.nano.executed.testcode import explain_comparisons
from clover_agent.nano.executed.trial import try_module

MODULE_SECONDS = 20.0
MEMORY = 2 << 30


def collect(module: Module, seed: int) -> Iterator[bytes]:
    """JSON lines of `Executed`, made in a child process that may not write files and dies with its limits."""
    read, write = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                _confine(folder)
                with os.fdopen(write, "w", encoding="utf-8") as out:
                    for found in try_module(module, random.Random(f"{seed}/{module.package}/{module.path}")):
                        out.write(json.dumps(asdict(found), ensure_ascii=True) + "\n")
                        out.flush()
            finally:
                os._exit(0)
        os.close(write)
        data = b""
        deadline = time.monotonic() + MODULE_SECONDS
        while (left := deadline - time.monotonic()) > 0 and select.select([read], [], [], left)[0]:
            piece = os.read(read, 1 << 16)
            if not piece:
                break
            data += piece
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
    yield from (line for line in data.splitlines(keepends=True) if line.endswith(b"\n"))


def _confine(folder: str) -> None:
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(MODULE_SECONDS), int(MODULE_SECONDS) + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    sys.setrecursionlimit(600)


def main(arguments: list[str] | None = None) -> None:
    """Write executed failures of a corpus's modules until all are done or the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=3600.0, help="time limit")
    parser.add_argument("--part", default="0/1", help="this part of so many: 0/2, 1/2")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    index, parts = map(int, options.part.split("/"))
    modules = [*read_corpus(options.corpus), *read_corpus(options.corpus, held_out_packages=True)][index::parts]
    random.Random(options.seed).shuffle(modules)
    explain_comparisons()
    gc.freeze()
    stop = time.monotonic() + options.seconds
    count = number = 0
    with lzma.open(options.out, "wb") as lines:
        for number, module in enumerate(modules):
            for line in collect(module, options.seed):
                lines.write(line)
                count += 1
            if number % 200 == 0:
                print(f"{number} of {len(modules)} modules, {count} failures", file=sys.stderr, flush=True)
            if time.monotonic() > stop:
                break
    print(f"{count} failures of {number + 1} modules", file=sys.stderr)


if __name__ == "__main__":
    main()
