"""config.json with values of the wrong kind is refused by name, not by whatever they break later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.config import CloverConfig
from engine.errors import CheckpointError

TINY = Path(__file__).parents[1] / "data" / "tiny-clover" / "fused-8-layers"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "big"),
        ("hidden_size", 0),
        ("hidden_size", 1.5),
        ("num_key_value_heads", 0),
        ("linear_num_key_heads", -1),
        ("num_hidden_layers", True),
        ("vocab_size", [1]),
        ("tie_word_embeddings", "no"),
        ("rms_norm_eps", "tiny"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(tmp_path: Path, field: str, value: Any) -> None:
    raw = json.loads((TINY / "config.json").read_text())
    raw.get("text_config", raw)[field] = value
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(CheckpointError, match=field):
        CloverConfig.load(tmp_path)
