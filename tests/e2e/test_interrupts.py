"""Signals at several stages: no container, no change of the user's files, a result that says `interrupted`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.client import connect

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

TINY = Path(__file__).parents[1] / "data" / "tiny-clover" / "fused-8-layers"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_sums.py").write_text("from sums import add\n\n\ndef test_add():\n    assert add(2, 2) == 4\n")
    git = ["git", "-C", str(folder), "-c", "user.name=u", "-c", "user.email=u@localhost"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    return folder


@pytest.mark.parametrize(
    ("kind", "stage", "test"),
    [
        (signal.SIGINT, "starting the sandbox", "python3 -m pytest -q"),
        (signal.SIGTERM, "running the tests", "sleep 100"),
        (signal.SIGHUP, "attempt 1", "python3 -m pytest -q"),
    ],
)
def test_an_interrupt_is_recorded_and_leaves_nothing(
    repo: Path, tmp_path: Path, kind: signal.Signals, stage: str, test: str
) -> None:
    command = [sys.executable, "-m", "clover_agent", "fix", str(repo), "--test", test, "--model", str(TINY), "--json"]
    env = {**os.environ, "CLOVER_HOME": str(tmp_path / "state")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert process.stderr is not None
    for line in process.stderr:
        if stage in line:
            break
    process.send_signal(kind)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert json.loads(out) == {"verdict": "interrupted", "reason": "interrupted", "exit_code": 130}
    assert err.splitlines()[-1] == "clover-agent: interrupted"
    assert "Traceback" not in err
    (folder,) = (tmp_path / "state" / "runs").iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert result["verdict"] == "interrupted"
    assert (result["evidence"]["baseline"] is not None) == (stage == "attempt 1")
    assert json.loads((folder / "trajectory.json").read_text())["info"]["exit_status"] == "interrupted"
    client = connect()
    try:
        labels = [str(container.labels) for container in client.containers.list(all=True)]
    finally:
        client.close()
    assert not any(f":{process.pid}:" in label for label in labels)
    status = subprocess.run(["git", "-C", str(repo), "status", "--porcelain"], capture_output=True, check=True)
    assert status.stdout == b""
