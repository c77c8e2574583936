"""Searching in the container, by ripgrep, and where it must not look."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandboxes.docker_sandbox import DockerSandbox
from tools.protocol import Observation
from tools.registry import Registry, standard_tools

pytestmark = pytest.mark.docker


@pytest.fixture
def search(start: Callable[..., DockerSandbox]) -> Callable[..., Observation]:
    sandbox = start(
        {
            "pkg/é mod.py": "def ünique(): pass\n".encode(),
            "pkg/ignored.log": b"ignored needle\n",
            ".gitignore": b"*.log\n",
            ".hidden/x": b"hidden needle\n",
            "bin": b"needle\0\1\n",
            "wide.txt": b"needle" + b"x" * 5000 + b"\n",
            "many": b"row\n" * 500,
        }
    )
    sandbox.run("ln -s /etc out; ln -s pkg in; rg() { echo fooled; }; mkfifo pkg2; mkdir -p void")

    def use(tool: str, **arguments: object) -> Observation:
        return Registry(standard_tools("true")).run(tool, arguments, sandbox)

    return use


def test_search(search: Callable[..., Observation]) -> None:
    assert search("search", pattern=r"def \w+\(", glob="*.py").text == "pkg/é mod.py:1:def ünique(): pass"
    found = search("search", pattern="needle").text.splitlines()
    assert [line.split(":")[0] for line in found] == [".hidden/x", "pkg/ignored.log", "wide.txt"]
    assert max(map(len, found)) <= 200
    assert search("search", pattern="^row$").text.endswith("\n... only the first 50 matches are shown")
    assert search("search", pattern="-e zebra").text == "No line matches '-e zebra'."
    broken = search("search", pattern="(")
    assert broken.is_error
    assert "unclosed group" in broken.text
    assert search("search", pattern="ünique", path="in").text.startswith("in/é mod.py:1:")
    for place, fault in (("out", "outside"), ("out/passwd", "outside"), ("absent", "not exist"), ("void", "no files")):
        refused = search("search", pattern="root", path=place)
        assert refused.is_error
        assert fault in refused.text
    assert "passwd" not in search("search", pattern="root:").text
    assert search("search", pattern="x", path="pkg2").is_error  # nobody ever writes into it

    assert search("find_files", pattern="*.py").text == "pkg/é mod.py"
    assert search("find_files", pattern="pkg/*").text == "pkg/ignored.log\npkg/é mod.py"
    assert search("find_files", pattern="passwd").text == "No file matches 'passwd'."
    assert search("find_files", pattern="*", path="out").is_error
