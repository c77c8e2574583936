"""Verdicts on patches in real sandboxes: honest ones, and a dozen ways to look fixed without being it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clover_agent.repository import commit_all, diff_folders
from clover_agent.verdicts import Verdict
from clover_agent.verify import Baseline, Verification, judge_baseline, verify
from sandboxes.config import SandboxConfig
from sandboxes.docker_sandbox import DockerSandbox
from tools.render import TestFailure, TestReport
from tools.testing import run_test_command

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

COMMAND = "python3 -m pytest -q"
FILES = {
    "pkg/__init__.py": "",
    "pkg/sums.py": "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n",
    "tests/test_sums.py": (
        "from pkg.sums import add, sub\n\n\ndef test_add():\n    assert add(2, 2) == 4\n\n\n"
        "def test_zero():\n    assert add(0, 0) == 0\n\n\ndef test_sub():\n    assert sub(3, 1) == 2\n"
    ),
    "pytest.ini": "[pytest]\n",
}
CONFIG = SandboxConfig(memory=1 << 30, workspace=64 << 20, scratch=64 << 20)
Grade = Callable[..., Verification]


@pytest.fixture(scope="module")
def base(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "repo"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    commit_all(folder)
    return folder


@pytest.fixture(scope="module")
def baseline(base: Path) -> Baseline:
    with DockerSandbox.start(base, CONFIG) as sandbox:
        verdict, _, found = judge_baseline(run_test_command(sandbox, COMMAND), None)
    assert verdict is None
    assert found.targets == ("tests/test_sums.py::test_add",)
    return found


@pytest.fixture
def grade(base: Path, baseline: Baseline, tmp_path: Path) -> Grade:
    """The verdict on a change: files by name, None for a deleted one."""

    def graded(changes: dict[str, str | None], repeats: int = 1, **options: bool) -> Verification:
        folder = tmp_path / "changed"
        subprocess.run(["cp", "-r", str(base), str(folder)], check=True)
        for name, text in changes.items():
            if text is None:
                (folder / name).unlink()
                continue
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return verify(base, diff_folders(folder), COMMAND, baseline, CONFIG, repeats=repeats, timeout=12, **options)

    return graded


SUMS = FILES["pkg/sums.py"]
RIGHT = SUMS.replace("a - b", "a + b", 1)


def test_a_right_patch_is_fixed_with_evidence(grade: Grade, base: Path) -> None:
    found = grade({"pkg/sums.py": RIGHT}, repeats=3)
    assert found.verdict is Verdict.FIXED
    assert len(found.reports) == 3
    assert set(found.reports[0].passed) == {f"tests/test_sums.py::test_{name}" for name in ("add", "zero", "sub")}
    evidence = found.evidence()
    assert len(evidence["tree"]) == 40
    assert evidence["image"].startswith("sha256:")
    assert [run["exit_code"] for run in evidence["runs"]] == [0, 0, 0]
    assert (base / "pkg/sums.py").read_text() == SUMS


def test_breaking_another_test_is_a_regression(grade: Grade) -> None:
    found = grade({"pkg/sums.py": SUMS.replace("a - b", "a + b")})
    assert found.verdict is Verdict.REGRESSED
    assert "test_sub" in found.reason


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"pkg/sums.py": SUMS.replace("a - b", "b - a", 1)}, id="wrong"),
        pytest.param({"pkg/sums.py": SUMS + "\n# fixed\n"}, id="a comment"),
        pytest.param({"tests/test_sums.py": FILES["tests/test_sums.py"].replace("== 4", "== 0")}, id="another test"),
        pytest.param({"tests/test_sums.py": None}, id="no test"),
        pytest.param({"pytest.ini": "[pytest]\naddopts = -k 'not add'\n"}, id="deselected"),
        pytest.param({"conftest.py": "collect_ignore = ['tests']\n"}, id="ignored"),
        pytest.param(
            {"conftest.py": "def pytest_collection_modifyitems(items):\n    items.clear()\n"},
            id="cleared",
        ),
        pytest.param({"pytest.py": "print('3 passed')\n"}, id="another pytest"),
        pytest.param({"pluggy.py": "raise SystemExit(0)\n"}, id="another pluggy"),
        pytest.param({"json.py": "import os\nos._exit(0)\n"}, id="another json"),
        pytest.param({"sitecustomize.py": "import os\nos._exit(0)\n"}, id="another start"),
        pytest.param({"pkg/sums.py": "import os\nprint('3 passed')\nos._exit(0)\n"}, id="leaves with status 0"),
        pytest.param({"pkg/sums.py": "import pytest\npytest.exit('done', 0)\n"}, id="ends pytest"),
        pytest.param(
            {"pkg/sums.py": "import pytest\npytest.skip('no', allow_module_level=True)\n"}, id="skips the module"
        ),
        pytest.param(
            {"pkg/sums.py": SUMS.replace("return a - b", "__import__('pytest').skip('no')", 1)}, id="skips the test"
        ),
        pytest.param(
            {"pkg/sums.py": SUMS.replace("return a - b", "__import__('pytest').xfail('no')", 1)}, id="expects failure"
        ),
        pytest.param({"pkg/sums.py": SUMS.replace("return a - b", "import time; time.sleep(600)", 1)}, id="hangs"),
        pytest.param({"pkg/sums.py": "def add(:\n"}, id="no longer Python"),
    ],
)
def test_not_fixed(grade: Grade, changes: dict[str, str | None], request: pytest.FixtureRequest) -> None:
    found = grade(changes)
    hangs = "hangs" in request.node.name
    assert found.verdict in ({Verdict.TIMEOUT} if hangs else {Verdict.NOT_FIXED, Verdict.REGRESSED}), found.reason


def test_changes_to_tests_are_dropped_and_the_rest_graded(grade: Grade) -> None:
    changes = {"pkg/sums.py": RIGHT, "tests/test_sums.py": "", "conftest.py": "raise OSError\n"}
    found = grade(changes)
    assert found.verdict is Verdict.FIXED
    assert found.restored == ("conftest.py", "tests/test_sums.py")
    assert b"conftest" not in found.patch
    assert b"test_sums" not in found.patch


def test_changes_to_tests_count_where_the_user_allows_them(grade: Grade) -> None:
    changes = {"pkg/sums.py": RIGHT, "tests/test_more.py": "def test_more():\n    assert True\n"}
    found = grade(changes, allow_test_changes=True)
    assert found.verdict is Verdict.FIXED
    assert found.restored == ()
    assert b"test_more" in found.patch


def test_a_fix_that_works_now_and_then_is_flaky(grade: Grade) -> None:
    # Passes in the first process of a container and fails in the next ones.
    flip = "import os, pathlib\nFLAG = pathlib.Path('/tmp/seen')\nRUN = FLAG.exists()\nFLAG.touch()\n"
    body = flip + SUMS.replace("return a - b", "return a + b if not RUN else 0", 1)
    found = grade({"pkg/sums.py": body}, repeats=3)
    assert found.verdict is Verdict.FLAKY


def test_a_patch_that_does_not_apply_is_said(base: Path, baseline: Baseline) -> None:
    patch = b"--- a/pkg/sums.py\n+++ b/pkg/sums.py\n@@ -1 +1 @@\n-nothing of it\n+else\n"
    found = verify(base, patch, COMMAND, baseline, CONFIG)
    assert found.verdict is Verdict.NOT_FIXED
    assert "does not apply" in found.reason


FAIL = TestFailure("t.py::a", "E   no")


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (TestReport(None, timed_out=True), None, Verdict.TIMEOUT),
        (TestReport(0, passed=("t.py::a",), structured=True), None, Verdict.NOT_REPRODUCED),
        (TestReport(0, output="fine"), None, Verdict.NOT_REPRODUCED),
        (TestReport(5, structured=True), None, Verdict.NO_TESTS),
        (TestReport(4, structured=True), None, Verdict.NO_TESTS),
        (TestReport(0, structured=True), None, Verdict.NO_TESTS),
        (TestReport(127, output="not found"), None, Verdict.NO_TESTS),
        (
            TestReport(1, failed=(FAIL,), structured=True),
            TestReport(0, passed=("t.py::a",), structured=True),
            Verdict.FLAKY,
        ),
        (TestReport(1, failed=(FAIL,), structured=True), TestReport(1, failed=(FAIL,), structured=True), None),
        (TestReport(2, collection_errors=(FAIL,), structured=True), None, None),
        (TestReport(1, output="assertion"), None, None),
    ],
)
def test_what_the_baseline_says(first: TestReport, second: TestReport | None, verdict: Verdict | None) -> None:
    found, reason, _ = judge_baseline(first, second)
    assert found is verdict
    assert bool(reason) == (verdict is not None)
