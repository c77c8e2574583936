"""Names of models, and how they are loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clover_agent.backends.embedded import EmbeddedBackend

EMBEDDED = "clover-nano"
CHECKPOINTS = Path(__file__).parents[1] / "engine" / "checkpoints"


def model_folder(name: str) -> Path:
    """Folder of a model: a name of a checkpoint that ships with the product, or a path. Raises CheckpointError."""
    from engine.errors import CheckpointError

    shipped = CHECKPOINTS / name
    try:
        folder = (
            shipped if Path(name).name == name and name[:1] != "." and shipped.is_dir() else Path(name).expanduser()
        )
        if name and folder.is_dir():
            return folder
    except (OSError, RuntimeError):  # a name too long, a folder that can't be entered, a user without a home
        pass
    raise CheckpointError(f"there is no model {name!r}: give the name of a shipped one ({EMBEDDED}) or a folder")


def load_embedded(name: str = EMBEDDED, threads: int | None = None) -> EmbeddedBackend:
    """The embedded engine with a checkpoint. Raises CheckpointError or TokenizerError."""
    # Waiting threads that spin cost a factor of several where other programs want the same cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from clover_agent.backends.embedded import EmbeddedBackend
    from engine.engine import Engine

    return EmbeddedBackend(Engine.load(model_folder(name), threads=threads))
