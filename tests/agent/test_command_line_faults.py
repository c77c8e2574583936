"""The command line with bad values, readers that leave, and places that can't be written: one line, the right code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clover_agent.cli import main


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=u", "-c", "user.email=u@localhost", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    monkeypatch.setenv("CLOVER_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("flag", "values"),
    [
        ("--max-turns", ["0", "-1", "x", "1.5", "", "²", "9" * 30, "9" * 5000]),
        ("--attempts", ["0", "-1", "nan"]),
        ("--repeats", ["0", "inf", "1000001"]),
        ("--seed", ["-1", "x", "", "1.0", str(2**63)]),
        ("--time-limit", ["0", "-1", "nan", "inf", "1e999", "", "x"]),
        ("--test-timeout", ["0", "nan", "soon"]),
    ],
)
def test_numbers_out_of_range_are_wrong_use(
    repo: Path, flag: str, values: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for value in values:
        for arguments in (["fix", str(repo), "--test", "x"], ["demo"]):
            if arguments[0] == "demo" and flag not in {"--seed", "--time-limit"}:
                continue
            with pytest.raises(SystemExit) as left:
                main([*arguments, f"{flag}={value}"])
            assert left.value.code == 2
            assert f"error: argument {flag}: " in capsys.readouterr().err.splitlines()[-1][:5000]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--patch", "."], "needs the name of a file"),
        (["--patch", ""], "needs the name of a file"),
        (["--patch", "/proc/x.patch"], "can't write"),
        (["--issue", "@"], "can't be read: Is a directory"),
        (["--issue", "@/no/such/file"], "can't be read: No such file"),
        (["--issue", "@/bin/sh"], "is not UTF-8 text"),
        (["--issue", "\udcff"], "is not UTF-8 text"),
        (["--model", ""], "there is no model"),
        (["--model", "no-such-model"], "there is no model"),
        (["--model", "x" * 300], "there is no model"),
        (["--model", "~no-such-user/model"], "there is no model"),
    ],
)
def test_what_can_be_known_at_once_is_told_at_once(
    repo: Path, tmp_path: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if options[1] == "/proc/x.patch" and os.access("/proc", os.W_OK):
        options = ["--patch", str(tmp_path / "closed" / "x.patch")]
        (tmp_path / "closed").write_text("")
        words = "there is no folder"
    assert main(["fix", str(repo), "--test", "x", *options]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert words in err
    assert not (tmp_path / "state").exists()


def test_json_is_valid_whatever_happens(repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, verdict, code in ((repo, "infra_error", 75), (tmp_path / "none", None, 2)):
        assert main(["fix", str(path), "--test", "x", "--json"]) == code
        out, err = capsys.readouterr()
        assert json.loads(out) == {
            "verdict": verdict,
            "reason": err.splitlines()[-1].removeprefix("clover-agent: "),
            "exit_code": code,
        }


def test_a_fault_of_the_infrastructure_is_kept_with_the_run(repo: Path, tmp_path: Path) -> None:
    assert main(["fix", str(repo), "--test", "x"]) == 75
    (folder,) = (tmp_path / "state" / "runs").iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert result["verdict"] == "infra_error"
    assert "Docker" in result["reason"]
    assert json.loads((folder / "trajectory.json").read_text())["info"]["exit_status"] == "infra_error"


def test_a_run_folder_that_cannot_be_is_named(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLOVER_HOME", str(tmp_path / "file"))
    assert main(["fix", str(repo), "--test", "x"]) == 2
    assert "set CLOVER_HOME" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("place", ["before", "behind"])
def test_debug_shows_the_traceback_and_keeps_the_code(
    tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["fix", str(tmp_path / "none"), "--test", "x"]
    assert main(["--debug", *arguments] if place == "before" else [*arguments, "--debug"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("clover-agent: ")


def shell(script: str, *arguments: object) -> tuple[int, str]:
    """Status of the command on the left of a pipe, and everything on stderr; $0 is the interpreter."""
    done = subprocess.run(
        ["bash", "-c", f"{script}; exit ${{PIPESTATUS[0]}}", sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ('"$0" -m clover_agent --help | true', 0),
        ('"$0" -m clover_agent fix --help | true', 0),
        ('"$0" -m clover_agent fix "$1" --test x --json | true', 75),
        ('"$0" -m clover_agent fix "$1" --test x 2>&1 >/dev/null | true', 75),
        ('"$0" -m clover_agent fix "$1" --test x >&- 2>&-', 75),
        ('"$0" -m clover_agent fix "$1" --test x --json >/dev/full', 75),
        ('PYTHONIOENCODING=ascii "$0" -m clover_agent fix "$1/\u00e9" --test x --json', 2),
    ],
)
def test_readers_that_leave_change_nothing(repo: Path, script: str, code: int) -> None:
    status, err = shell(script, repo)
    assert status == code
    assert "Traceback" not in err
    assert "Exception ignored" not in err
