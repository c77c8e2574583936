"""Raw output is kept, with a limit: on this machine for people, in the container for commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxes.docker_sandbox import DockerSandbox
from tools.terminal import Terminal

pytestmark = pytest.mark.docker


def test_what_is_left_out_can_be_read_in_the_sandbox(start: Callable[..., DockerSandbox]) -> None:
    sandbox = start({"a": b"1"})
    assert sandbox.run("echo short").log == ""
    result = sandbox.run("seq 1 20000; printf '\\033[31mred\\n'")
    assert result.omitted_bytes
    assert sandbox.run(f"sed -n 10000p {result.log}; tail -n1 {result.log}").output == "10000\nred\n"
    shown = Terminal().run({"command": "seq 1 20000"}, sandbox).text
    assert shown.splitlines()[-1].startswith("[the output's beginning is kept in /clover/")
    assert sandbox.list_files() == ["a"]
    assert sandbox.diff() == b""


def test_logs_on_this_machine_are_raw_and_capped(start: Callable[..., DockerSandbox], tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    sandbox = start(log_folder=logs, log_bytes=1000)
    sandbox.run("printf '\\033[31mred\\0\\n'")
    sandbox.run("head -c 100000 /dev/zero")
    sandbox.run("echo more")
    assert (logs / "command-0001.log").read_bytes() == b"\x1b[31mred\0\n"
    assert sum(file.stat().st_size for file in logs.iterdir()) == 1000
