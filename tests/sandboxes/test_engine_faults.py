"""An engine that goes away in the middle, seen through DOCKER_HOST."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxes.docker_sandbox import DockerSandbox
from sandboxes.protocol import SandboxError

pytestmark = pytest.mark.docker
ENGINE = "/var/run/docker.sock"


class Relay:
    """A socket that leads to the engine until it is cut."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._open = [self._listener]
        self._done = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        """Close every connection, and take no new one."""
        self._done.set()
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while not self._done.is_set():
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(ENGINE)
                self._open += [near, far]
                threading.Thread(target=self._join, args=(near, far), daemon=True).start()

    def _join(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                for end in select.select([near, far], [], [])[0]:
                    data = end.recv(1 << 16)
                    other = far if end is near else near
                    if data:
                        other.sendall(data)
                    else:
                        other.shutdown(socket.SHUT_WR)
                        if end is far:
                            return
                        near = far  # the rest of the answer only


@pytest.mark.skipif(not Path(ENGINE).is_socket(), reason="the engine is elsewhere")
def test_an_engine_that_dies_is_named_at_once(
    start: Callable[..., DockerSandbox], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    relay = Relay(str(tmp_path / "engine.sock"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
    sandbox = start({"a": b"1"})
    assert sandbox.run("cat a").output == "1"
    threading.Timer(1.0, relay.cut).start()
    started = time.monotonic()
    with pytest.raises(SandboxError, match=r"engine (stopped answering|answers)|No Docker|no Docker"):
        sandbox.run("sleep 30")
    assert time.monotonic() - started < 15  # far below the command's own limit
    with pytest.raises(SandboxError):
        sandbox.read_bytes("a")
    with contextlib.suppress(SandboxError):
        sandbox.close()
