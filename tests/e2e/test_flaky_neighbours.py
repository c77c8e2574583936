"""A right fix counts although a test that has nothing to do with it comes and goes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from clover_agent import models
from clover_agent.backends.scripted import ScriptedBackend
from clover_agent.cli import main
from clover_agent.messages import Message, Reply, ToolCall

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

# Fails in those runs of the whole suite, counted in each container.
NEIGHBOUR = """import pathlib

COUNT = pathlib.Path("/tmp/runs-of-neighbour")


def test_neighbour():
    run = int(COUNT.read_text()) + 1 if COUNT.exists() else 1
    COUNT.write_text(str(run))
    assert run not in {failing}
"""


def call(name: str, **arguments: object) -> Reply:
    return Reply(Message("assistant", "", tool_calls=(ToolCall(name, name, arguments),)), "tool_calls")


WRONG = call("str_replace", path="sums.py", line=2, old_str="    return a - b", new_str="    return b")
RIGHT = call("str_replace", path="sums.py", line=2, old_str="    return a - b", new_str="    return a + b")
TESTS = call("run_tests")


def repository(folder: Path, neighbour: str) -> Path:
    folder.mkdir()
    (folder / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_neighbour.py").write_text(neighbour)
    (folder / "test_a_sum.py").write_text(
        "from sums import add\n\n\ndef test_add():\n    assert add(2, 2) == 4\n\n\n"
        "def test_zero():\n    assert add(0, 0) == 0\n"
    )
    git = ["git", "-C", str(folder), "-c", "user.name=u", "-c", "user.email=u@localhost"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    return folder


@pytest.mark.parametrize(
    "failing",
    [
        (2, 3),  # known from the base: its second run differs from the first
        (3,),  # first seen in the attempt
    ],
)
def test_a_flaky_neighbour_does_not_cost_the_fix(
    failing: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = repository(tmp_path / "repo", NEIGHBOUR.format(failing=set(failing)))
    monkeypatch.setenv("CLOVER_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(models, "load_embedded", lambda name: ScriptedBackend([RIGHT, TESTS]))
    code = main(["fix", str(repo), "--test", "python3 -m pytest -q", "--attempts", "1", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (code, result["verdict"]) == (0, "fixed"), result["reason"]


def test_of_wrong_patches_the_one_with_the_fewest_failing_tests_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = repository(tmp_path / "repo", "def test_more():\n    from sums import add\n\n    assert add(1, 2) == 3\n")
    nearer = call("str_replace", path="sums.py", line=2, old_str="a - b", new_str="a * b")
    other = call("str_replace", path="sums.py", line=2, old_str="a - b", new_str="a")
    monkeypatch.setenv("CLOVER_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(models, "load_embedded", lambda name: ScriptedBackend([WRONG, nearer, other]))
    code = main(["fix", str(repo), "--test", "python3 -m pytest -q", "--attempts", "3", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert code == 1
    assert "a * b" in result["patch"]
