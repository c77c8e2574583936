"""`python -m clover_agent.nano.measure`: how many fresh bugs in unseen packages the whole product repairs.

python -m clover_agent.nano.measure build --count 240     make the tasks
python -m clover_agent.nano.measure run --time-limit 120  give them to `clover-agent fix`, check its patches
python -m clover_agent.nano.measure report                the table
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from clover_agent.nano.measure.building import build, download
from clover_agent.nano.measure.report import summary
from clover_agent.nano.measure.running import Options, Row, run_task
from clover_agent.nano.measure.tasks import Task, load_tasks


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    options = _parser().parse_args(arguments)
    folder: Path = options.folder
    match options.command:
        case "build":
            archives = folder / "sdists"
            if options.download:
                download(archives)
            chosen = tuple(options.only)
            made = build(
                folder / "tasks",
                archives,
                options.python,
                count=options.count,
                seed=options.seed,
                workers=options.workers,
                only=chosen,
            )
            print(f"{len(made)} tasks in {folder / 'tasks'}")
            return 0 if made else 1
        case "run":
            return _run(folder, options)
        case _:
            print(summary(read_rows(folder / "results.jsonl")))
            return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m clover_agent.nano.measure",
        description="Repair rate of the whole product on fresh single-line bugs in packages clover-nano never saw.",
        epilog="build and run execute the packages' tests on this machine, outside of any sandbox, too.",
    )
    parser.add_argument("--folder", type=Path, default=Path(".nano"), help="where everything is kept (default: .nano)")
    parser.add_argument(
        "--python",
        default="python3",
        help="interpreter with pytest that runs the packages' tests here (default: python3)",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("build", help="make bug tasks")
    made.add_argument("--count", type=int, default=240, help="tasks to make (default: 240)")
    made.add_argument("--seed", type=int, default=20261, help="decides which bugs (default: 20261)")
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--only", action="append", default=[], metavar="PACKAGE", help="only this package (repeatable)")
    made.add_argument("--download", action="store_true", help="fetch missing source distributions with pip first")
    run = commands.add_parser("run", help="give the tasks to `clover-agent fix`; continues where it stopped")
    run.add_argument("--time-limit", type=float, default=120.0, help="seconds a task (default: 120)")
    run.add_argument("--model", default="", help="as for `clover-agent fix`")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--workers", type=int, default=1)
    run.add_argument("--limit", type=int, default=None, metavar="N", help="only N tasks, spread over all")
    run.add_argument("--again", action="store_true", help="forget earlier results")
    commands.add_parser("report", help="print the table of the results so far")
    return parser


def _run(folder: Path, options: argparse.Namespace) -> int:
    tasks, results = load_tasks(folder / "tasks"), folder / "results.jsonl"
    if not tasks:
        print(f"no tasks in {folder / 'tasks'}: make some with `build`", file=sys.stderr)
        return 2
    if options.again:
        results.unlink(missing_ok=True)
    done = {row.id for row in read_rows(results)}
    chosen = [task for task in spread(tasks, options.limit) if task.id not in done]
    threads = max(1, (os.cpu_count() or 1) // options.workers)
    settings = Options(options.time_limit, options.python, threads, options.model, options.seed)

    def one(task: Task) -> Row:
        return run_task(task, folder / "tasks", settings)

    with ThreadPoolExecutor(options.workers) as pool:
        for count, row in enumerate(pool.map(one, chosen), 1):
            with results.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
            note = " FALSE FIXED" if row.false_fixed else ""
            print(
                f"{count}/{len(chosen)} {row.id}: {row.verdict}, {row.seconds:.0f} s{note} {row.error}".rstrip(),
                flush=True,
            )
    print()
    print(summary(read_rows(results)))
    return 0


def spread(tasks: list[Task], limit: int | None) -> list[Task]:
    """At most `limit` tasks, the packages taking turns, so that any first part covers them evenly."""
    turns: dict[str, int] = {}
    keyed = []
    for task in tasks:
        turns[task.package] = turns.get(task.package, 0) + 1
        keyed.append((turns[task.package], task.package, task))
    return [task for _, _, task in sorted(keyed, key=lambda entry: entry[:2])][:limit]


def read_rows(file: Path) -> list[Row]:
    """Results so far; runs that infrastructure broke are left out, so that they are tried again."""
    lines: Iterable[str] = file.read_text().splitlines() if file.exists() else ()
    latest = {row["id"]: Row(**row) for row in map(json.loads, lines)}
    return [row for row in latest.values() if row.verdict not in ("infra_error", "interrupted")]


if __name__ == "__main__":
    raise SystemExit(main())
