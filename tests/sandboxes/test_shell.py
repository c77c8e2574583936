"""Commands in the persistent shell: state, endings, limits, output."""

from __future__ import annotations

import resource
import signal
import threading
import time

import pytest

from sandboxes.docker_sandbox import DockerSandbox

pytestmark = pytest.mark.docker


@pytest.fixture(autouse=True)
def home(sandbox: DockerSandbox) -> None:
    sandbox.run("cd /workspace")


def test_folder_variables_and_functions_last(sandbox: DockerSandbox) -> None:
    sandbox.run("cd sub; X=5; export Y=6; f() { echo called; }")
    assert sandbox.run("pwd; echo $X $Y; f").output == "/workspace/sub\n5 6\ncalled\n"


def test_env_holds_for_one_command(sandbox: DockerSandbox) -> None:
    show = "echo $GREETING; python3 -c 'import os; print(os.environ[\"GREETING\"])'"
    assert sandbox.run(show, env={"GREETING": "a b"}).output == "a b\na b\n"
    assert sandbox.run("echo [$GREETING]").output == "[]\n"


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 3", 3), ("exec false", 1), ("kill -9 $$", 137), ("set -e; false", 1), ('echo "open', 2), ("(exit 7)", 7)],
)
def test_an_ending_is_reported_and_the_next_command_works(sandbox: DockerSandbox, command: str, status: int) -> None:
    sandbox.run("cd sub")
    assert sandbox.run(command).exit_code == status
    again = sandbox.run("pwd")
    assert (again.exit_code, again.output) == (0, "/workspace/sub\n")


def test_unclosed_heredoc_ends(sandbox: DockerSandbox) -> None:
    result = sandbox.run("cat <<EOF\nabc", timeout=5)
    assert not result.timed_out
    assert result.output.endswith("abc\n")


def test_an_apostrophe_in_a_quoted_heredoc_in_a_substitution_is_bashs_business(sandbox: DockerSandbox) -> None:
    assert sandbox.run("x=$(cat <<'EOF'\nit's \"fine\nEOF\n); echo \"$x\"").output == "it's \"fine\n"


@pytest.mark.parametrize(
    "command",
    [
        *("cat", "read -p name? x; true", "python3", "git log || true", "man ls || true"),
        "cd /tmp; git init -q e; git -C e -c user.name=a -c user.email=a@b commit --allow-empty; git -C e log",
    ],
)
def test_nothing_waits_for_input(sandbox: DockerSandbox, command: str) -> None:
    assert not sandbox.run(command, timeout=10).timed_out


def test_a_background_child_does_not_hold_the_call(sandbox: DockerSandbox) -> None:
    started = time.monotonic()
    result = sandbox.run("sleep 30 & echo done")
    assert (result.exit_code, result.output) == (0, "done\n")
    assert time.monotonic() - started < 2
    assert len(result.survivors) == 1
    sandbox.run(f"kill {result.survivors[0]}")


def test_a_dead_shell_is_noticed_though_a_child_holds_its_stream(sandbox: DockerSandbox) -> None:
    started = time.monotonic()
    assert sandbox.run("sleep 30 & exit 4").exit_code == 4
    assert time.monotonic() - started < 2


def test_a_background_child_may_print_without_end(sandbox: DockerSandbox) -> None:
    started = time.monotonic()
    result = sandbox.run("yes & sleep 0.1; echo done")
    died = sandbox.run("yes & exit 4")
    sandbox.run("pkill yes")
    assert result.exit_code == 0
    assert result.survivors
    assert died.exit_code == 4
    assert time.monotonic() - started < 15  # a held call would take the whole limit of 60
    assert sandbox.run("echo quiet").output.endswith("quiet\n")


@pytest.mark.parametrize("command", ["exec >/dev/null; echo a", "exec 2>&1 1>/dev/null", "set -x; true", "set -u"])
def test_the_shell_stays_in_touch_whatever_is_done_to_it(sandbox: DockerSandbox, command: str) -> None:
    assert not sandbox.run(command, timeout=5).timed_out
    sandbox.run("set +xu")
    assert sandbox.run("echo b").output == "b\n"


def test_declarations_last(sandbox: DockerSandbox) -> None:
    sandbox.run("declare -A map=([a]=1); declare -i n=4")
    assert sandbox.run("echo ${map[a]} $n").output == "1 4\n"


@pytest.mark.parametrize("command", ["a\0b", "\ud800"])
def test_what_no_shell_can_be_given_is_the_callers_mistake(sandbox: DockerSandbox, command: str) -> None:
    assert sandbox.run(command).exit_code == 126


def test_an_interrupt_ends_the_command(sandbox: DockerSandbox) -> None:
    main = threading.get_ident()
    threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        sandbox.run("sleep 77", timeout=20)
    assert "sleep 77" not in sandbox.run("ps -eo args").output


def test_the_limit_ends_everything_it_started(sandbox: DockerSandbox) -> None:
    started = time.monotonic()
    result = sandbox.run("echo begin; setsid sh -c 'while :; do :; done' & while :; do :; done", timeout=1)
    assert time.monotonic() - started < 2
    assert (result.timed_out, result.exit_code, result.output) == (True, None, "begin\n")
    assert "while :" not in sandbox.run("ps -eo args").output


def test_killing_everything_does_not_end_the_sandbox(sandbox: DockerSandbox) -> None:
    sandbox.run("kill -9 -1")
    assert sandbox.run("echo still here").output == "still here\n"
    assert sandbox.read_bytes("sub/b.txt") == b"two"


def test_a_flood_without_a_newline_stays_bounded(sandbox: DockerSandbox) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = sandbox.run("head -c 200000000 /dev/zero | tr '\\0' x", timeout=60)
    assert result.exit_code == 0
    assert result.omitted_bytes == 200_000_000 - 32_000
    assert len(result.output) < 33_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_a_command_can_hold_any_text(sandbox: DockerSandbox) -> None:
    assert sandbox.run("printf '%s' 'it'\"'\"'s $HOME `x` \\ é'").output == "it's $HOME `x` \\ é"
