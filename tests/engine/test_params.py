from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import CheckpointError
from engine.generation_config import GenerationConfig, Ramp
from engine.params import DecodeSettings, GenerationParams, resolve


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "speculate"),
        ("max_new_tokens", 0),
        ("max_new_tokens", 1.5),
        ("block_size", 0),
        ("threshold", 1.01),
        ("threshold", float("nan")),
        ("temperature", -0.1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", True),
        ("repetition_penalty", 0.0),
        ("presence_penalty", float("inf")),
        ("frequency_penalty", "high"),
        ("deadline", float("nan")),
    ],
)
def test_wrong_values_are_named(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field) as caught:
        GenerationParams(**{field: value})
    assert "\n" not in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("changes", [{"window": 0}, {"start": -1}])
def test_ramps_need_sense(changes: dict) -> None:
    with pytest.raises(ValueError, match="ramp"):
        Ramp(**changes)


FILE = {
    "eos_token_id": [302, 300],
    "pad_token_id": 300,
    "stop_token_ids": [299],
    "presence_penalty": 0.9,
    "repetition_penalty": 1.05,
    "dllm_length_penalty": 2.0,
    "dllm_length_penalty_start": 24,
    "dllm_think_end_bias": 1.0,
    "dllm_think_end_window": 40,
    "dllm_think_end_token_id": 306,
    "agent_profile": "compact",
}


def test_file_is_read_and_unknown_fields_are_kept() -> None:
    config = GenerationConfig.parse(FILE)
    assert config.stop_ids == (302, 300, 299)
    assert (config.presence_penalty, config.frequency_penalty, config.repetition_penalty) == (0.9, 0.0, 1.05)
    assert config.length_ramp == Ramp(2.0, 24, 8192)
    assert config.think_end_ramp == Ramp(1.0, 4096, 40)
    assert config.extra == {"agent_profile": "compact"}


def test_absent_file_takes_ids_from_the_model_config(tmp_path: Path) -> None:
    config = GenerationConfig.load(tmp_path, {"eos_token_id": 7, "pad_token_id": None})
    assert config == GenerationConfig(stop_ids=(7,))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"eos_token_id": "x"}, "eos_token_id"),
        ({"presence_penalty": "much"}, "presence_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"dllm_think_end_token_id": None}, "dllm_think_end_token_id"),
        ({"dllm_length_penalty_window": 0}, "window"),
    ],
)
def test_broken_files_are_one_line(tmp_path: Path, changes: dict, complaint: str) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps({**FILE, **changes}))
    with pytest.raises(CheckpointError, match=complaint) as caught:
        GenerationConfig.load(tmp_path)
    assert "\n" not in str(caught.value)
    assert "generation_config.json" in str(caught.value)


def settled(
    params: GenerationParams, defaults: GenerationConfig, room: int = 100, thinking: bool = False
) -> DecodeSettings:
    return resolve(params, defaults, mask_token_id=9, trained_block=32, threshold=0.95, room=room, thinking=thinking)


def test_requests_override_the_file() -> None:
    config = GenerationConfig.parse(FILE)
    plain = settled(GenerationParams(), config)
    assert (plain.threshold, plain.block_size, plain.controls.presence_penalty) == (0.95, 32, 0.9)
    own = settled(GenerationParams(threshold=0.5, block_size=8, presence_penalty=0.0, length_ramp=Ramp()), config)
    assert (own.threshold, own.block_size, own.controls.presence_penalty) == (0.5, 8, 0.0)
    assert own.controls.length_ramp == Ramp()


def test_the_think_end_ramp_needs_an_open_think_block() -> None:
    config = GenerationConfig.parse(FILE)
    assert settled(GenerationParams(), config, thinking=True).controls.think_end_ramp == config.think_end_ramp
    assert settled(GenerationParams(), config).controls.think_end_ramp.strength == 0


def test_block_size_must_divide() -> None:
    with pytest.raises(ValueError, match="block_size 24 does not divide"):
        settled(GenerationParams(block_size=24), GenerationConfig())


@pytest.mark.parametrize(
    ("mode", "default", "room", "wanted"),
    [
        ("diffusion", None, 100, 96),
        ("diffusion", 50, 100, 50),
        ("diffusion", 500, 100, 96),
        ("autoregressive", None, 100, 100),
        ("diffusion", None, 5, 1),
    ],
)
def test_only_the_default_length_shrinks_to_the_room(mode: str, default: int | None, room: int, wanted: int) -> None:
    config = GenerationConfig(max_new_tokens=default)
    assert settled(GenerationParams(mode=mode), config, room).max_new_tokens == wanted
    assert settled(GenerationParams(mode=mode, max_new_tokens=1000), config, room).max_new_tokens == 1000
