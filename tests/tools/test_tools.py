"""The tools on a real folder: what they do, what they say, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.folder_sandbox import FolderSandbox
from tools.files import MAX_LISTED, MAX_VIEW_LINES
from tools.protocol import Observation
from tools.registry import Registry, standard_tools
from tools.render import TestReport
from tools.testing import run_test_command, takes_selection

TESTS = """from pkg.mod import add


def test_add():
    assert add(2, 2) == 4


def test_zero():
    assert add(0, 0) == 0
"""
PYTEST = "python3 -m pytest -q"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "pkg").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg" / "mod.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "tests" / "test_mod.py").write_text(TESTS)
    (folder / "long.txt").write_text("".join(f"row {n}\n" for n in range(1, 1001)))
    (folder / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (folder / "bytes.bin").write_bytes(b"\0\1\2")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


@pytest.fixture
def sandbox(repo: Path) -> FolderSandbox:
    return FolderSandbox(repo)


def use(sandbox: FolderSandbox, name: str, /, test_command: str = PYTEST, **arguments: object) -> Observation:
    return Registry(standard_tools(test_command, 60)).run(name, arguments, sandbox)


def test_view_numbers_lines(sandbox: FolderSandbox) -> None:
    assert use(sandbox, "view", path="pkg/mod.py").text == "1\tdef add(a, b):\n2\t    return a - b"
    assert use(sandbox, "view", path="pkg/mod.py", view_range=[2, 2]).text == "2\t    return a - b"
    assert use(sandbox, "view", path="pkg/mod.py", view_range=[2, -1]).text == "2\t    return a - b"
    assert use(sandbox, "view", path="pkg/mod.py", view_range=[1, 99]).text.count("\n") == 1
    assert use(sandbox, "view", path="dos.txt").text == "1\ta\n2\tb"
    assert use(sandbox, "view", path=f"{sandbox.workspace}/pkg/../pkg/mod.py").text.startswith("1\tdef add")
    assert use(sandbox, "view", path="pkg/__init__.py").text == "pkg/__init__.py is empty."


def test_view_is_bounded(sandbox: FolderSandbox, repo: Path) -> None:
    lines = use(sandbox, "view", path="long.txt").text.splitlines()
    assert lines[-2:] == [f"{MAX_VIEW_LINES}\trow {MAX_VIEW_LINES}", "... 600 more lines, to 1000"]
    for number in range(MAX_LISTED + 5):
        (repo / "pkg" / f"f{number}.py").write_text("")
    listing = use(sandbox, "view", path="pkg").text.splitlines()
    assert listing[0] == "pkg/__init__.py"
    assert listing[-1] == "... and 7 more"
    assert len(listing) == MAX_LISTED + 1


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"path": "pkg/mod.py", "view_range": [3, 4]}, "view_range must lie in lines 1 to 2 of pkg/mod.py"),
        ({"path": "pkg/mod.py", "view_range": [2, 1]}, "view_range must lie"),
        ({"path": "pkg/mod.py", "view_range": [0, 1]}, "view_range must lie"),
        ({"path": "pkg/mod.py", "view_range": [1]}, "view: view_range: [1] is too short"),
        ({"path": "mod.py"}, "mod.py does not exist: did you mean pkg/mod.py?"),
        ({"path": "pkg/mdo.py"}, "did you mean pkg/mod.py"),
        ({"path": "../x"}, "outside the repository"),
        ({"path": "/etc/passwd"}, "outside the repository"),
        ({"path": "pkg/../../x"}, "outside the repository"),
        ({"path": "~/x"}, "outside the repository"),
        ({"path": ""}, "path is empty"),
        ({"path": "a\0b"}, "NUL"),
        ({"path": 3}, "view: path: 3 is not of type 'string'"),
        ({"path": "pkg/mod.py", "range": [1, 2]}, "'range' was unexpected"),
    ],
)
def test_view_faults(sandbox: FolderSandbox, arguments: dict[str, Any], fault: str) -> None:
    observation = use(sandbox, "view", **arguments)
    assert observation.is_error
    assert fault in observation.text


def test_links_out_of_the_workspace_are_refused(sandbox: FolderSandbox, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    (repo / "link").symlink_to(tmp_path / "secret")
    edit = use(sandbox, "str_replace", path="link", old_str="s3cret", new_str="x")
    for observation in (use(sandbox, "view", path="link"), edit, use(sandbox, "create", path="link", content="x")):
        assert observation.is_error
        assert "s3cret" not in observation.text
    assert (tmp_path / "secret").read_text() == "s3cret\n"


def test_create_only_makes_new_files(sandbox: FolderSandbox, repo: Path) -> None:
    observation = use(sandbox, "create", path="docs/new.txt", content="one\ntwo")
    assert (observation.text, observation.changed) == ("Created docs/new.txt (2 lines).", ("docs/new.txt",))
    assert (repo / "docs" / "new.txt").read_bytes() == b"one\ntwo"
    assert "exists already" in use(sandbox, "create", path="pkg/mod.py", content="").text
    assert "is a folder" in use(sandbox, "create", path="pkg", content="").text
    assert (repo / "pkg" / "mod.py").read_text().startswith("def add")


def test_edits_show_their_real_diff(sandbox: FolderSandbox, repo: Path) -> None:
    observation = use(sandbox, "str_replace", path="dos.txt", old_str="a\nb", new_str="a\nc\nd")
    assert observation.text == "Edited dos.txt\n@@ -2 +2,2 @@\n-b\n+c\n+d"
    assert (repo / "dos.txt").read_bytes() == b"a\r\nc\r\nd\r\n"
    observation = use(sandbox, "insert", path="pkg/mod.py", line=1, text='    """Sum."""')
    assert observation.text == 'Edited pkg/mod.py\n@@ -1,0 +2 @@\n+    """Sum."""'
    assert observation.changed == ("pkg/mod.py",)


def test_search(sandbox: FolderSandbox, repo: Path) -> None:
    assert use(sandbox, "search", pattern=r"def add\(", glob="*.py").text == "pkg/mod.py:1:def add(a, b):"
    assert use(sandbox, "search", pattern="add", path="tests").text.startswith("tests/test_mod.py:1:")
    assert use(sandbox, "search", pattern="zebra").text == "No line matches 'zebra'."
    assert use(sandbox, "search", pattern="-x'; touch hacked; '").text.startswith("No line matches")
    assert not (repo / "hacked").exists()
    many = use(sandbox, "search", pattern="^row").text.splitlines()
    assert len(many) == 51
    assert many[-1] == "... only the first 50 matches are shown"
    broken = use(sandbox, "search", pattern="(")
    assert broken.is_error
    assert "grep" in broken.text
    assert use(sandbox, "search", pattern="x", path="../..").is_error


def test_terminal(sandbox: FolderSandbox) -> None:
    assert use(sandbox, "terminal", command="echo hi; exit 3").text == "hi\n[exit status 3]"
    assert use(sandbox, "terminal", command="true").text == "[no output]"
    assert use(sandbox, "terminal", command="cat").text == "[no output]"
    slow = use(sandbox, "terminal", command="echo begun; sleep 20", timeout=1)
    assert slow.text == "begun\n[stopped after 1 seconds]"
    assert use(sandbox, "terminal", command="x", timeout=0).is_error
    assert use(sandbox, "terminal", command="").is_error


def test_run_tests_shows_the_first_failure_and_then_that_all_pass(sandbox: FolderSandbox) -> None:
    observation = use(sandbox, "run_tests")
    lines = observation.text.splitlines()
    assert lines[0] == "1 test fails, 1 pass. The first:"
    assert lines[2:6] == [
        "tests/test_mod.py::test_add",
        "tests/test_mod.py:5: in test_add",
        "    assert add(2, 2) == 4",
        "E   assert 0 == 4",
    ]
    assert observation.data is not None
    assert (observation.data["ok"], observation.data["whole"]) == (False, True)
    use(sandbox, "str_replace", path="pkg/mod.py", old_str="a - b", new_str="a + b")
    assert use(sandbox, "run_tests").text == "All 2 tests pass."


def test_a_second_edit_of_the_same_size_is_seen_at_once(sandbox: FolderSandbox) -> None:
    for old, new, passes in (("-", "+", True), ("+", "-", False), ("-", "+", True)):
        use(sandbox, "str_replace", path="pkg/mod.py", old_str=f"a {old} b", new_str=f"a {new} b")
        assert (use(sandbox, "run_tests").text == "All 2 tests pass.") == passes


def test_single_tests(sandbox: FolderSandbox) -> None:
    observation = use(sandbox, "run_tests", tests="tests/test_mod.py::test_zero")
    assert observation.text == "All 1 tests pass."
    assert observation.data is not None
    assert observation.data["whole"] is False
    assert use(sandbox, "run_tests", test_command="make check", tests="a").is_error
    assert use(sandbox, "run_tests", tests="'").is_error


@pytest.mark.parametrize(
    ("command", "takes"),
    [
        ("pytest", True),
        ("PYTHONPATH=src python3 -m pytest -q", True),
        ("cd x && .venv/bin/pytest", True),
        ("make test", False),
        ("pytest && echo done", False),
        ("pytest | tee log", False),
        ("python -m unittest", False),
        ("", False),
        ("'", False),
    ],
)
def test_where_a_selection_can_be_appended(command: str, takes: bool) -> None:
    assert takes_selection(command) == takes


def test_reports_of_commands_that_are_no_pytest_or_find_nothing(sandbox: FolderSandbox, repo: Path) -> None:
    plain = run_test_command(sandbox, "echo out; exit 4")
    assert plain == TestReport(4, output="out\n", seconds=plain.seconds)
    assert (
        use(sandbox, "run_tests", test_command="echo out; exit 4").text
        == "The test command ended with status 4.\n\nout"
    )
    empty = run_test_command(sandbox, f"{PYTEST} -k nothing_like_it")
    assert (empty.exit_code, empty.structured, empty.total, empty.ok) == (5, True, 0, False)
    (repo / "tests" / "test_mod.py").write_text("import no_such_module\n")
    broken = run_test_command(sandbox, PYTEST)
    assert (broken.exit_code, broken.structured, len(broken.collection_errors)) == (2, True, 1)
    assert use(sandbox, "run_tests").text.startswith("Tests could not be collected.\n\ntests/test_mod.py\n")


def test_a_test_run_stops_at_its_limit(sandbox: FolderSandbox) -> None:
    report = run_test_command(sandbox, "sleep 30", timeout=1)
    assert (report.timed_out, report.exit_code, report.ok) == (True, None, False)


def test_test_runs_leave_no_trace(sandbox: FolderSandbox, repo: Path) -> None:
    before = sandbox.list_files()
    run_test_command(sandbox, f"{PYTEST} -p no:cacheprovider")
    assert sandbox.list_files() == before


def test_options_and_variables_reach_pytest(sandbox: FolderSandbox, repo: Path) -> None:
    (repo / "plug.py").write_text("import os\ndef pytest_configure():\n    open(os.environ['SEEN'], 'w').close()\n")
    env = {"SEEN": str(repo / "seen"), "PYTHONPATH": str(repo)}
    assert run_test_command(sandbox, PYTEST, addopts="-p plug", env=env).structured
    assert (repo / "seen").exists()


def test_finish_records_the_claim(sandbox: FolderSandbox) -> None:
    observation = use(sandbox, "finish", outcome="fixed", summary="Sum.")
    assert (observation.finished, observation.data) == (True, {"outcome": "fixed", "summary": "Sum."})
    assert use(sandbox, "finish", outcome="done", summary="").is_error


def test_schemas_are_closed_and_described() -> None:
    tools = standard_tools(PYTEST)
    assert [tool.name for tool in tools] == [
        "terminal",
        "view",
        "create",
        "str_replace",
        "insert",
        "undo",
        "search",
        "find_files",
        "run_tests",
        "finish",
    ]
    for tool in tools:
        assert tool.parameters["additionalProperties"] is False
        assert tool.description.endswith(".")
    assert list(tools[3].parameters["properties"]) == ["path", "line", "old_str", "new_str"]
