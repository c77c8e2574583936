"""What a new user meets: usual test commands, a source layout, results that go astray."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clover_agent import models
from clover_agent.backends.scripted import ScriptedBackend
from clover_agent.cli import main
from clover_agent.messages import Message, Reply, ToolCall

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

Run = Callable[..., tuple[int, str, str]]


def call(name: str, **arguments: Any) -> Reply:
    return Reply(Message("assistant", "", tool_calls=(ToolCall(name, name, arguments),)), "tool_calls")


TESTS = call("run_tests")
FINISH = call("finish", outcome="fixed", summary="Sum.")


def edits(path: str) -> list[Reply]:
    return [call("str_replace", path=path, old_str="a - b", new_str="a + b"), TESTS, FINISH]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("CLOVER_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def command(files: dict[str, str], items: list[Reply], test: str, *options: str) -> tuple[int, str, str]:
        folder = tmp_path / "repo"
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        git = ["git", "-C", str(folder), "-c", "user.name=u", "-c", "user.email=u@localhost"]
        for arguments in (["init", "-q"], ["add", "--", *files], ["commit", "-q", "-m", "first"]):
            subprocess.run([*git, *arguments], check=True)
        monkeypatch.setattr(models, "load_embedded", lambda name: ScriptedBackend([*items] * 40))
        code = main(["fix", str(folder), "--test", test, *options])
        return code, *capsys.readouterr()

    return command


CODE = "def add(a, b):\n    return a - b\n"
CHECK = "from sums import add\n\n\ndef test_add():\n    assert add(2, 2) == 4\n"


@pytest.mark.parametrize(
    "test", ["python -m pytest -q test_sums.py", "python -m unittest -q", "make -s check", "python check.py"]
)
def test_usual_commands_run_in_the_sandbox(run: Run, test: str) -> None:
    unit = "import unittest\nfrom sums import add\n\n\nclass TestAdd(unittest.TestCase):\n"
    unit += "    def test_add(self):\n        self.assertEqual(add(2, 2), 4)\n"
    files = {"sums.py": CODE, "test_sums.py": CHECK if "pytest" in test else unit}
    files |= {"check.py": "from sums import add\nassert add(2, 2) == 4\n", "Makefile": "check:\n\tpython check.py\n"}
    code, out, _ = run(files, edits("sums.py"), test, "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "fixed")


def test_a_command_that_the_sandbox_lacks_is_named(run: Run) -> None:
    code, out, _ = run({"sums.py": CODE}, [FINISH], "no-such-runner --all")
    assert code == 1
    assert out.startswith("no_tests: the test command can't be run in the sandbox (")
    assert "no-such-runner: command not found" in out.splitlines()[0]


def test_a_source_layout_is_explained(run: Run) -> None:
    files = {"src/sums/__init__.py": CODE, "tests/test_sums.py": CHECK}
    code, out, err = run(files, [FINISH], "python3 -m pytest -q", "--attempts", "1")
    assert code == 1
    hint = "the sandbox has no module sums: put PYTHONPATH=src before the test command"
    assert hint in out.splitlines()[0]
    assert hint in err


def test_an_unproven_patch_file_is_called_so(run: Run, tmp_path: Path) -> None:
    wrong = call("str_replace", path="sums.py", old_str="a - b", new_str="b - a")
    files = {"sums.py": CODE, "test_sums.py": CHECK}
    options = ("--attempts", "1", "--patch", str(tmp_path / "x.patch"))
    code, _, err = run(files, [wrong, TESTS, FINISH], "python3 -m pytest -q", *options)
    assert code == 1
    assert "patch (not verified as a fix) written to" in err.splitlines()[-1]


def test_no_patch_is_said(run: Run, tmp_path: Path) -> None:
    code, _, err = run({"sums.py": CODE}, [FINISH], "true", "--patch", str(tmp_path / "x.patch"))
    assert code == 1
    assert err.splitlines()[-1] == "clover-agent: no patch was written: there is none"
    assert not (tmp_path / "x.patch").exists()


def test_a_patch_that_cannot_be_written_is_not_lost(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()

    def leave(messages: object) -> Reply:
        place.rmdir()
        return FINISH

    files = {"sums.py": CODE, "test_sums.py": CHECK}
    items = [*edits("sums.py")[:2], leave]
    code, out, err = run(files, items, "python3 -m pytest -q", "--patch", str(place / "x.patch"))
    assert code == 75
    assert out.startswith("fixed: 1 failing test passes")
    assert "can't be written" in err.splitlines()[-1]
    (folder,) = (tmp_path / "state" / "runs").iterdir()
    assert b"a + b" in (folder / "patch.diff").read_bytes()


def test_nested_repositories_are_told(run: Run, tmp_path: Path) -> None:
    loose = tmp_path / "repo" / "loose"
    loose.mkdir(parents=True)
    subprocess.run(["git", "-C", str(loose), "init", "-q"], check=True)
    (loose / "x").write_text("x")
    _, _, err = run({"sums.py": CODE}, [FINISH], "true")
    assert "left out of the copy, being git repositories of their own: loose" in err
