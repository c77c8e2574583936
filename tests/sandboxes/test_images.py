"""Where a sandbox's image comes from, and what is said when it does not come."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandboxes.client import connect
from sandboxes.config import SandboxConfig
from sandboxes.docker_sandbox import DockerSandbox
from sandboxes.image import DEFAULT_IMAGE
from sandboxes.images import LABEL, prepare
from sandboxes.protocol import SandboxError
from tests.sandboxes.registry import image_config, registry, tar_of

pytestmark = pytest.mark.docker


@pytest.fixture
def forget(engine: None) -> Iterator[list[str]]:
    """Images to remove when the test ends, by name or id."""
    names: list[str] = []
    yield names
    with closing(connect()) as client:
        for name in names:
            client.images.remove(name, force=True)


def test_an_image_is_pulled_with_progress(forget: list[str]) -> None:
    said: list[str] = []
    with registry(files={"hello": b"hello"}) as name, closing(connect()) as client:
        found = prepare(client, SandboxConfig(image=name), said.append)
        forget.append(name)
        assert client.images.get(name).id == found
        assert prepare(client, SandboxConfig(image=name), said.append) == found
    assert said.count(f"pulling {name}") == 1
    assert any("Pulling fs layer" in line for line in said)
    assert any("Downloaded newer image" in line for line in said)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"refuse": 401, "code": "UNAUTHORIZED"}, "refuses the pull: run `docker login`"),
        ({"refuse": 403, "code": "DENIED"}, "refuses the pull: run `docker login`"),
        ({"refuse": 404, "code": "MANIFEST_UNKNOWN"}, "does not have it: check the name"),
        ({"architecture": "s390x"}, "has none for this machine's architecture"),
    ],
)
def test_a_pull_that_fails_is_named(start: Callable[..., DockerSandbox], answer: dict[str, object], says: str) -> None:
    with registry(files={}, **answer) as name, pytest.raises(SandboxError) as fault:  # type: ignore[arg-type]
        start(image=name)
    assert says in str(fault.value)
    assert name in str(fault.value)


def test_a_registry_that_does_not_answer_is_named(start: Callable[..., DockerSandbox]) -> None:
    with pytest.raises(SandboxError, match="can't be pulled: check the name and the network"):
        start(image="127.0.0.1:9/x:1")


def test_an_image_for_another_machine_is_named(forget: list[str], start: Callable[..., DockerSandbox]) -> None:
    foreign = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x16\x00" + bytes(44)  # machine 22: S/390
    layer = tar_of(dict.fromkeys(("bin/cat", "bin/bash"), foreign))
    packed = {"layer.tar": layer, "config.json": image_config(layer, "s390x")}
    tags = [{"Config": "config.json", "RepoTags": ["clover-agent-test-foreign:1"], "Layers": ["layer.tar"]}]
    with closing(connect()) as client:
        client.images.load(tar_of({**packed, "manifest.json": json.dumps(tags).encode()}))
    forget.append("clover-agent-test-foreign:1")
    with pytest.raises(SandboxError, match="is built for s390x and this engine runs"):
        start(image="clover-agent-test-foreign:1")


def test_a_dockerfile_is_built_once_for_its_content(tmp_path: Path, forget: list[str]) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {DEFAULT_IMAGE}\nCOPY note /note\n")
    (context / "note").write_text("one")
    (context / "left-out").write_text("x")
    (context / ".dockerignore").write_text("# what is not sent\nleft-out\n")
    said: list[str] = []
    config = SandboxConfig(dockerfile=context / "Dockerfile")
    with closing(connect()) as client:
        first = prepare(client, config, said.append)
        forget.append(first)
        (context / "left-out").write_text("y")
        assert prepare(client, config, said.append) == first
        (context / "note").write_text("two")
        forget.append(prepare(client, config, said.append))
    assert forget[0] != forget[1]
    assert sum(line.startswith("building") for line in said) == 2


def test_set_up_commands_run_once_as_root(forget: list[str], start: Callable[..., DockerSandbox]) -> None:
    commands = ("echo run >>/ran; id -u >>/ran", 'printf "%s\\n" "a \\"b\\" $0" >>/ran')
    sandbox = start({"a": b"1"}, setup=commands, setup_network="none")
    forget.append(sandbox.image_id)
    assert sandbox.run("cat /ran; id -u").output == 'run\n0\na "b" /bin/bash\n1000\n'
    assert start(setup=commands, setup_network="none").image_id == sandbox.image_id
    with closing(connect()) as client:
        assert client.images.get(sandbox.image_id).labels[LABEL].startswith("setup-")


def test_a_set_up_command_that_fails_is_named_with_what_it_said(start: Callable[..., DockerSandbox]) -> None:
    with pytest.raises(SandboxError, match=r"the set-up commands .* failed: .*no such tool"):
        start(setup=("echo no such tool; exit 3",), setup_network="none")
    with closing(connect()) as client:
        assert not client.images.list(all=True, filters={"label": LABEL})


def test_a_dockerfile_that_is_not_there_or_wrong_is_named(tmp_path: Path, start: Callable[..., DockerSandbox]) -> None:
    with pytest.raises(SandboxError, match="there is no Dockerfile"):
        start(dockerfile=tmp_path / "absent")
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "Dockerfile").write_text("NONSENSE\n")
    with pytest.raises(SandboxError, match=r"the Dockerfile .* failed: .*NONSENSE"):
        start(dockerfile=tmp_path / "alone" / "Dockerfile")


def test_a_volume_of_the_image_is_memory_too(forget: list[str], start: Callable[..., DockerSandbox]) -> None:
    with closing(connect()) as client:
        text = f"FROM {DEFAULT_IMAGE}\nRUN mkdir -m 777 /data\nVOLUME /data\n"
        packed = io.BytesIO(tar_of({"Dockerfile": text.encode()}))
        image, _ = client.images.build(fileobj=packed, custom_context=True, rm=True)
        before = len(client.api.volumes()["Volumes"] or [])
    forget.append(str(image.id))
    sandbox = start(image=str(image.id), scratch=16 << 20)
    assert sandbox.run("head -c 100M /dev/zero >/data/x").exit_code != 0
    assert "tmpfs" in sandbox.run("grep ' /data ' /proc/mounts").output
    with closing(connect()) as client:
        assert len(client.api.volumes()["Volumes"] or []) == before


def test_tar_helpers_make_what_they_say() -> None:
    with tarfile.open(fileobj=io.BytesIO(tar_of({"a": b"1"}))) as tar:
        assert tar.getnames() == ["a"]
