"""One container without network, capabilities or a writable root, that lives no longer than the process that made it.

All writable places are memory file systems with a size, so a full disk is the container's own. Its main process reads
from a stream that this process holds: when this process ends, however it ends, the stream closes, the main process
ends, and the engine removes the container. The janitor is for engines and crashes that prevent even that.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sandboxes.client import faults
from sandboxes.config import SandboxConfig
from sandboxes.frames import Frames
from sandboxes.janitor import LABEL, owner
from sandboxes.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.types import HostConfig

WORKSPACE = "/workspace"
PRIVATE = "/clover"
_REMOVAL = 10.0  # seconds that the engine may take to remove what has ended
_INIT_USER = "65534:65534"  # not the commands' user, so that killing all of theirs leaves the container alone


class Container:
    """A created container. id: the engine's."""

    def __init__(self, client: DockerClient, image_id: str, config: SandboxConfig, env: Mapping[str, str]) -> None:
        """Create it from an image that the engine has. Raises SandboxError."""
        self._client = client
        self._network = ""
        self._lifeline: Frames | None = None
        name = f"clover-agent-{secrets.token_hex(6)}"
        with faults():
            image = client.api.inspect_image(image_id)
            self._architecture = str(image.get("Architecture") or "")
            volumes = tuple((image.get("Config") or {}).get("Volumes") or {})
        try:
            with faults():
                if config.network == "bridge":  # a network of its own: other containers are not on it
                    made = client.api.create_network(name, driver="bridge", labels={LABEL: owner()})
                    self._network = str(made["Id"])
                self.id = str(
                    client.api.create_container(
                        image_id,
                        [],
                        entrypoint=["cat"],
                        stdin_open=True,
                        name=name,
                        labels={LABEL: owner()},
                        user=_INIT_USER,
                        working_dir="/",
                        environment=dict(env),
                        host_config=_host_config(client, config, self._network or "none", volumes),
                    )["Id"]
                )
        except BaseException as fault:
            with contextlib.suppress(Exception):  # an interrupt may come after the engine has made it
                client.api.remove_container(name, force=True, v=True)
            self._remove_network()
            if config.runtime and "runtime" in str(fault):
                raise SandboxError(f"the engine has no runtime {config.runtime!r}: see `docker info`") from None
            raise

    def start(self) -> None:
        """Start it. Raises SandboxError."""
        with faults():
            self._lifeline = Frames(self._client.api.attach_socket(self.id, params={"stdin": 1, "stream": 1}))
            self._client.api.start(self.id)

    def assert_running(self) -> None:
        """Raises SandboxError that says why the container has stopped."""
        with faults():
            state = self._client.api.inspect_container(self.id)["State"]
        if not state["Running"]:
            reason = "out of memory" if state.get("OOMKilled") else f"status {state.get('ExitCode')}"
            raise SandboxError(f"the sandbox's container has stopped ({reason}): start again")

    def unfit(self) -> str:
        """Why the image may not run here."""
        engine = ""
        with contextlib.suppress(Exception):
            engine = str(self._client.version().get("Arch") or "")
        if engine and self._architecture and engine != self._architecture:
            return (
                f"the image is built for {self._architecture} and this engine runs {engine}: choose an image for "
                f"{engine}, or install emulation"
            )
        return "the image needs bash, coreutils, tar and git"

    def remove(self) -> None:
        """Remove it with its volumes and network. Safe to call twice. Raises SandboxError."""
        import docker.errors

        with faults():
            try:
                self._client.api.remove_container(self.id, force=True, v=True)
            except docker.errors.NotFound:
                pass
            except docker.errors.APIError as fault:
                if fault.status_code != 409:
                    raise
                self._await_removal()  # it is under way already
            finally:
                if self._lifeline is not None:
                    self._lifeline.close()
                self._remove_network()

    def _await_removal(self) -> None:
        import docker.errors

        deadline = time.monotonic() + _REMOVAL
        with contextlib.suppress(docker.errors.NotFound):
            while time.monotonic() < deadline:
                self._client.api.inspect_container(self.id)
                time.sleep(0.05)

    def _remove_network(self) -> None:
        import docker.errors

        network, self._network = self._network, ""
        if network:
            with contextlib.suppress(docker.errors.APIError):  # the janitor's, then
                self._client.api.remove_network(network)


def _host_config(client: DockerClient, config: SandboxConfig, network: str, volumes: tuple[str, ...]) -> HostConfig:
    from docker.types import Mount

    scratch = f"exec,mode=1777,size={config.scratch}"
    return client.api.create_host_config(
        init=True,
        auto_remove=True,
        network_mode=network,
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        mem_limit=config.memory,
        memswap_limit=config.memory,
        nano_cpus=int(config.cpus * 1e9),
        pids_limit=config.pids,
        ulimits=[{"Name": "core", "Soft": 0, "Hard": 0}],
        log_config={"Type": "none"},
        runtime=config.runtime or None,
        mounts=[Mount(mount.target, str(mount.source), "bind", read_only=True) for mount in config.mounts],
        tmpfs={
            **dict.fromkeys(volumes, scratch),  # a volume of the image would be the engine's disk without a limit
            WORKSPACE: f"exec,uid=1000,gid=1000,mode=755,size={config.workspace}",
            "/home/agent": f"exec,uid=1000,gid=1000,mode=755,size={config.scratch}",
            PRIVATE: f"exec,uid=1000,gid=1000,mode=700,size={2 * config.workspace}",
            "/tmp": scratch,
        },
    )
