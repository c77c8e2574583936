"""A pytest plugin that notes which lines of the project run in failing and in passing tests.

Placed into a sandbox and loaded with `-p clover_trace`; standard library only, any Python from 3.6 on. Where to write
and what to watch come from the environment: CLOVER_TRACE_OUT, CLOVER_TRACE_ROOT, CLOVER_TRACE_SECONDS.
"""

import json
import os
import sys
import threading
import time

ROOT = os.path.join(os.path.realpath(os.environ.get("CLOVER_TRACE_ROOT", ".")), "")
OUT = os.environ.get("CLOVER_TRACE_OUT", "")
DEADLINE = time.time() + float(os.environ.get("CLOVER_TRACE_SECONDS", "20"))

watched = {}  # code file name -> path below ROOT, or None
counts = {}  # path -> {line: [failing tests, passing tests]}
totals = [0, 0]
running = {}  # path -> lines of the test that runs now
outcome = {"failed": False}


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
    if time.time() < DEADLINE:
        threading.settrace(tracer)
        sys.settrace(tracer)


def pytest_runtest_logreport(report):
    if report.failed:
        outcome["failed"] = True


def pytest_runtest_logfinish(nodeid, location):
    sys.settrace(None)
    threading.settrace(None)
    if time.time() >= DEADLINE and not running:
        return
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
