"""Notes which lines of the project the Python processes of a command run.

Placed into a sandbox where every Python finds it at its start; standard library only, any Python from 3.6 on. Where to
write and what to watch come from the environment: CLOVER_TRACE_OUT (a line of JSON is added for each process) and
CLOVER_TRACE_ROOT.
"""

import atexit
import json
import os
import sys
import threading
import time

OUT = os.environ.get("CLOVER_TRACE_OUT", "")
ROOT = os.path.join(os.path.realpath(os.environ.get("CLOVER_TRACE_ROOT", ".")), "")
DEADLINE = time.time() + 20.0
OPTIMIZED = 1  # flag of functions' code, which that of modules and classes lacks

watched = {}  # code file name -> path below ROOT, or None
lines = {}  # path -> lines that ran


def path_of(name):
    if name not in watched:
        real = os.path.realpath(name)
        inside = real.startswith(ROOT) and real.endswith(".py") and "site-packages" not in real
        watched[name] = real[len(ROOT) :] if inside else None
    return watched[name]


def tracer(frame, event, _):
    if time.time() > DEADLINE:
        sys.settrace(None)
        return None
    path = path_of(frame.f_code.co_filename)
    if path is None or not frame.f_code.co_flags & OPTIMIZED:
        return None
    seen = lines.setdefault(path, set())
    seen.add(frame.f_lineno)

    def local(inner, kind, _):
        if kind == "line":
            seen.add(inner.f_lineno)
        return local

    return local


def write():
    sys.settrace(None)
    with open(OUT, "a") as out:
        out.write(json.dumps({path: sorted(seen) for path, seen in lines.items()}) + "\n")


if OUT:
    atexit.register(write)
    threading.settrace(tracer)
    sys.settrace(tracer)
