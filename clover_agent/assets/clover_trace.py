"""A pytest plugin that notes which lines of the project run in failing and in passing tests.

Placed into a sandbox and loaded with `-p clover_trace`; standard library only, any Python from 3.6 on. Where to write
and what to watch come from the environment: CLOVER_TRACE_OUT, CLOVER_TRACE_ROOT, CLOVER_TRACE_TARGETS (a file with the
ids of the tests that are known to fail). They are traced first and foremost, then their neighbours in the same files,
then others, until each kind has used up its seconds; the rest runs at full speed.
"""

import json
import os
import sys
import threading
import time

ROOT = os.path.join(os.path.realpath(os.environ.get("CLOVER_TRACE_ROOT", ".")), "")
OUT = os.environ.get("CLOVER_TRACE_OUT", "")
SECONDS = {"target": 20.0, "neighbour": 2.5, "other": 1.5}
with open(os.environ["CLOVER_TRACE_TARGETS"], encoding="utf-8") as known:
    TARGETS = frozenset(known.read().splitlines())
FILES = frozenset(test.split("::")[0] for test in TARGETS)

watched = {}  # code file name -> path below ROOT, or None
counts = {}  # path -> {line: [failing tests, passing tests]}
totals = [0, 0]
running = {}  # path -> lines of the test that runs now
outcome = {"failed": False}
spent = {"target": 0.0, "neighbour": 0.0, "other": 0.0}
current = {"kind": None, "start": 0.0}


def path_of(name):
    if name not in watched:
        real = os.path.realpath(name)
        inside = real.startswith(ROOT) and real.endswith(".py") and "site-packages" not in real
        watched[name] = real[len(ROOT) :] if inside else None
    return watched[name]


def tracer(frame, event, _):
    path = path_of(frame.f_code.co_filename)
    if path is None:
        return None
    lines = running.setdefault(path, set())
    lines.add(frame.f_lineno)

    def local(inner, kind, _):
        if kind == "line":
            lines.add(inner.f_lineno)
        return local

    return local


def pytest_runtest_logstart(nodeid, location):
    running.clear()
    outcome["failed"] = False
    kind = "target" if nodeid in TARGETS else "neighbour" if nodeid.split("::")[0] in FILES else "other"
    current["kind"], current["start"] = None, time.time()
    if spent[kind] < SECONDS[kind]:
        current["kind"] = kind
        threading.settrace(tracer)
        sys.settrace(tracer)


def pytest_runtest_logreport(report):
    if report.failed:
        outcome["failed"] = True


def pytest_runtest_logfinish(nodeid, location):
    sys.settrace(None)
    threading.settrace(None)
    if current["kind"] is None:
        return
    spent[current["kind"]] += time.time() - current["start"]
    column = 0 if outcome["failed"] else 1
    totals[column] += 1
    for path, lines in list(running.items()):
        seen = counts.setdefault(path, {})
        for line in list(lines):
            seen.setdefault(line, [0, 0])[column] += 1


def pytest_sessionfinish(session):
    if OUT:
        with open(OUT, "w") as out:
            json.dump({"failing": totals[0], "passing": totals[1], "files": counts}, out)
