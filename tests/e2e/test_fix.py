"""`clover-agent fix` as a user runs it: a real engine, a scripted model, every kind of end."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from clover_agent import models
from clover_agent.backends.scripted import Item, ScriptedBackend
from clover_agent.cli import main
from clover_agent.messages import Message, Reply, ToolCall
from sandboxes.client import connect
from sandboxes.janitor import LABEL

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

TINY = Path(__file__).parents[1] / "data" / "tiny-clover" / "fused-8-layers"
TEST = "python3 -m pytest -q"
Run = Callable[..., tuple[int, str, str]]


def call(name: str, **arguments: Any) -> Reply:
    return Reply(Message("assistant", "", tool_calls=(ToolCall(name, name, arguments),)), "tool_calls")


FIX = call("str_replace", path="sums.py", line=2, old_str="    return a - b", new_str="    return a + b")
WRONG = call("str_replace", path="sums.py", line=2, old_str="    return a - b", new_str="    return b - a")
TESTS = call("run_tests")
FINISH = call("finish", outcome="fixed", summary="Sum.")
SOLVED = [FIX, TESTS, FINISH]


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=u", "-c", "user.email=u@localhost")
    return subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_sums.py").write_text(
        "from sums import add\n\n\ndef test_add():\n    assert add(2, 2) == 4\n\n\n"
        "def test_zero():\n    assert add(0, 0) == 0\n"
    )
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def state(folder: Path) -> dict[str, str]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture
def run(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Run the command with a scripted model; afterwards the repository is as it was and no container is left."""
    monkeypatch.setenv("CLOVER_HOME", str(tmp_path / "state"))
    seen: list[dict[str, str]] = []

    def command(items: Sequence[Item], *options: str, test: str = TEST, path: Path = repo) -> tuple[int, str, str]:
        monkeypatch.setattr(models, "load_embedded", lambda name: ScriptedBackend([*items] * 40))
        seen.append(state(repo))
        code = main(["fix", str(path), "--test", test, *options])
        out, err = capsys.readouterr()
        if "--apply" not in options:
            assert state(repo) == seen[-1]
        assert "Traceback" not in err
        return code, out, err

    yield command
    assert own_containers() == []


def own_containers() -> list[str]:
    """Containers of this process that are still there."""
    client = connect()
    try:
        found = client.containers.list(all=True, filters={"label": LABEL})
        return [str(c.name) for c in found if any(str(os.getpid()) in str(value) for value in c.labels.values())]
    finally:
        client.close()


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_a_fix_is_proven_and_printed(run: Run) -> None:
    code, out, err = run(SOLVED)
    assert code == 0
    assert out.startswith("fixed: ")
    assert "tests before: 1 fail, 1 pass -> after: 0 fail, 2 pass" in out
    assert "+    return a + b" in out
    steps = [line.partition(" s] ")[2] for line in err.splitlines()]
    assert "starting the sandbox" in steps
    assert "  str_replace sums.py:2" in steps
    assert "  All 2 tests pass." in steps
    assert all(line.startswith("[") for line in err.splitlines())


def test_json_holds_the_evidence(run: Run, tmp_path: Path) -> None:
    patch = tmp_path / "fix.patch"
    code, out, err = run(SOLVED, "--json", "--patch", str(patch), "--seed", "3")
    result = json.loads(out)
    assert (code, result["verdict"], result["attempts"]) == (0, "fixed", 1)
    assert result["tool_calls"] == {"total": 3, "valid": 3}
    assert result["patch"] == patch.read_text()
    assert result["evidence"]["targets"] == ["test_sums.py::test_add"]
    assert result["evidence"]["baseline"]["failed"] == ["test_sums.py::test_add"]
    runs = result["evidence"]["verification"]["runs"]
    assert [entry["exit_code"] for entry in runs] == [0, 0, 0]
    document = json.loads(Path(result["trajectory"]).read_text())
    assert document["trajectory_format"] == "mini-swe-agent-1.1"
    assert document["info"]["exit_status"] == "fixed"
    assert document["info"]["submission"] == patch.read_text()
    assert "patch written" in err


def test_apply_changes_the_users_files_only_after_proof(run: Run, repo: Path) -> None:
    code, _, err = run([WRONG], "--apply", "--attempts", "1")
    assert code == 1
    assert "nothing was applied: there is no verified patch" in err
    assert "a - b" in (repo / "sums.py").read_text()
    code, _, err = run(SOLVED, "--apply")
    assert code == 0
    assert (repo / "sums.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert git(repo, "status", "--porcelain") == " M sums.py\n"


def test_a_later_attempt_starts_from_the_base(run: Run) -> None:
    code, out, _ = run([WRONG, FIX, TESTS, FINISH], "--json")
    result = json.loads(out)
    assert (code, result["verdict"], result["attempts"]) == (0, "fixed", 2)
    assert "b - a" not in result["patch"]


def test_the_models_word_counts_nothing(run: Run) -> None:
    code, out, _ = run([FINISH], "--attempts", "2")
    assert code == 1
    assert out.startswith("not_fixed: ")


def test_uncommitted_work_is_fixed_too_and_said(run: Run, repo: Path) -> None:
    (repo / "notes.txt").write_text("mine\n")
    (repo / "sums.py").write_text("# mine\ndef add(a, b):\n    return a - b\n")
    edit = call("str_replace", path="sums.py", old_str="a - b", new_str="a + b")
    code, out, err = run([edit, TESTS, FINISH])
    assert code == 0
    assert "uncommitted changes" in err
    assert "-# mine" not in out
    assert "notes.txt" not in out


@pytest.mark.parametrize(
    ("test", "verdict", "code"),
    [
        ("true", "not_reproduced", 1),
        (f"{TEST} -k zero", "not_reproduced", 1),
        (f"{TEST} -k nothing_like_it", "no_tests", 1),
        ("no_such_command_here", "no_tests", 1),
        (f"{TEST} --no-such-option", "no_tests", 1),
        ("sleep 60", "timeout", 3),
    ],
)
def test_commands_that_show_no_bug(run: Run, test: str, verdict: str, code: int) -> None:
    found, out, _ = run(SOLVED, "--json", "--test-timeout", "4", test=test)
    assert (json.loads(out)["verdict"], found) == (verdict, code)


def test_a_command_without_reports_is_judged_by_its_status(run: Run) -> None:
    test = "python3 -c 'import sums; assert sums.add(2, 2) == 4'"
    code, out, _ = run(SOLVED, "--json", test=test)
    assert (json.loads(out)["verdict"], code) == ("fixed", 0)


def test_limits_and_dead_ends(run: Run) -> None:
    talk = Reply(Message("assistant", "Let me think."), "stop")
    view = call("view", path="sums.py")
    for items, options, verdict, code in (
        ([talk], ("--attempts", "1"), "format_error", 1),
        ([view], ("--attempts", "1"), "stuck", 1),
        ([view, call("view", path="test_sums.py")], ("--attempts", "1", "--max-turns", "2"), "limit", 3),
        (SOLVED, ("--time-limit", "0.5"), "limit", 3),
    ):
        found, out, _ = run(items, "--json", *options)
        assert (json.loads(out)["verdict"], found) == (verdict, code)


def test_wrong_use_is_one_line_and_status_2(
    run: Run, repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain").mkdir()
    for path, options, words in (
        (tmp_path / "nowhere", (), "is not a folder"),
        (tmp_path / "plain", (), "is not a git repository"),
        (repo, ("--issue", "@/no/such/file"), "the issue file"),
        (repo, ("--patch", "/no/such/folder/x.patch"), "there is no folder"),
    ):
        code, out, err = run(SOLVED, *options, path=path)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert words in err
    code, _, err = run(SOLVED, test="  ")
    assert code == 2
    assert "--test is empty" in err
    for arguments in (
        ["fix"],
        ["fix", str(repo)],
        ["fix", str(repo), "--test", "x", "--time-limit", "-1"],
        ["nonsense"],
    ):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 2
    capsys.readouterr()


def test_models_that_are_missing_or_broken(repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    for model in (str(tmp_path / "none"), str(broken)):
        code = main(["fix", str(repo), "--test", TEST, "--model", model])
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        assert last_line(err).startswith("clover-agent: ")


def test_an_unreachable_engine_is_infrastructure(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    code, out, err = run(SOLVED)
    monkeypatch.undo()
    assert (code, out) == (75, "")
    assert "Docker" in last_line(err)


def test_a_missing_image_is_infrastructure(run: Run) -> None:
    code, out, err = run(SOLVED, "--image", "no-such-image:1")
    assert (code, out) == (75, "")
    assert "no-such-image:1" in last_line(err)


def test_an_interrupted_run_leaves_nothing_behind(repo: Path, tmp_path: Path) -> None:
    before = state(repo)
    command = [sys.executable, "-m", "clover_agent", "fix", str(repo), "--test", TEST, "--model", str(TINY)]
    env = {**os.environ, "CLOVER_HOME": str(tmp_path / "state")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert process.stderr is not None
    for line in process.stderr:
        if "attempt 1" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert last_line(err) == "clover-agent: interrupted"
    client = connect()
    try:
        labels = [str(container.labels) for container in client.containers.list(all=True)]
    finally:
        client.close()
    assert not any(str(process.pid) in label for label in labels)
    assert state(repo) == before
