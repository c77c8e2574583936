"""Our pytest plugins in a sandbox: placed outside the workspace, loaded without touching the project or its command."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from sandboxes.protocol import Sandbox

PYTHON_MINORS = range(8, 16)


def place(sandbox: Sandbox, name: str) -> tuple[str, dict[str, str]]:
    """Put the plugin `name` into the sandbox; returns its folder and the environment under which `-p name` finds it.

    It is found by PYTHONPATH or, where the test command sets that itself, as a package of the user.
    """
    source = (Path(__file__).parent / "assets" / f"{name}.py").read_bytes()
    folder = str(PurePosixPath(sandbox.put_private(f"{name}/{name}.py", source)).parent)
    for minor in PYTHON_MINORS:
        sandbox.put_private(f"{name}/lib/python3.{minor}/site-packages/{name}.py", source)
    return folder, {"PYTHONPATH": folder, "PYTHONUSERBASE": folder}
