"""Where a run of `fix` is kept: its log, patch, result and trajectory."""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from pathlib import Path

from clover_agent.errors import UsageError
from clover_agent.eventlog import read_log
from clover_agent.fix_result import FixRequest, FixResult
from clover_agent.trajectory import trajectory

EVENTS = "events.jsonl"


def state_folder() -> Path:
    """Where runs are kept: CLOVER_HOME, else the XDG state folder."""
    if home := os.environ.get("CLOVER_HOME"):
        return Path(home)
    state = os.environ.get("XDG_STATE_HOME") or str(Path("~").expanduser() / ".local" / "state")
    return Path(state) / "clover-agent"


def make_run_folder(request: FixRequest) -> Path:
    """The folder that the request names, or a new one. Raises UsageError where there can be none."""
    try:
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        folder = request.run_folder or state_folder() / "runs" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / EVENTS).touch()
    except RuntimeError:
        raise UsageError("this user has no home folder: set CLOVER_HOME to a folder for the runs") from None
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"{fault.filename} can't be made or written ({fault.strerror})"
        raise UsageError(f"{where}: set CLOVER_HOME to a folder for the runs") from None
    return folder


def store(result: FixResult, request: FixRequest) -> None:
    """Write the patch, the result and the trajectory beside the log."""
    folder = result.run_folder
    (folder / "patch.diff").write_bytes(result.patch)
    (folder / "result.json").write_text(json.dumps(result.to_json(), indent=1), encoding="utf-8")
    record = trajectory(
        read_log(folder / EVENTS)[0],
        exit_status=str(result.verdict),
        submission=result.patch.decode("utf-8", "replace"),
        config={"test": request.test, "model": request.model, "seed": request.seed},
        evidence=result.evidence,
    )
    (folder / "trajectory.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
