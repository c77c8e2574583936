from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoint import INDEX, load_model, save_checkpoint
from engine.errors import CheckpointError
from engine.model.clover import Clover
from engine.quantize import dequantize_rows, quantize_rows

TINY = Path(__file__).parents[1] / "data" / "tiny-clover"
FUSED = TINY / "fused-8-layers"


def same(left: Clover, right: Clover) -> bool:
    pairs = zip(left.state_dict().items(), right.state_dict().items(), strict=True)
    return all(a == b and x.dtype == y.dtype and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_saved_weights_come_back_exactly(tmp_path: Path) -> None:
    model = load_model(FUSED)
    save_checkpoint(model, tmp_path, shard_bytes=1 << 20)
    shutil.copy(FUSED / "config.json", tmp_path)
    assert same(load_model(tmp_path), model)
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 2
    assert all(path.stat().st_size < (1 << 20) + 10_000 for path in shards)
    assert set(json.loads((tmp_path / INDEX).read_text())["weight_map"]) == {n for n, _ in model.named_parameters()}
    save_checkpoint(model, tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    assert same(load_model(tmp_path), model)


def test_int8_rows_are_near_and_small(tmp_path: Path) -> None:
    model = load_model(FUSED)
    save_checkpoint(model, tmp_path, int8=True)
    shutil.copy(FUSED / "config.json", tmp_path)
    back = load_model(tmp_path)
    for (name, weight), (_, near) in zip(model.named_parameters(), back.named_parameters(), strict=True):
        step = weight.abs().amax(-1, keepdim=True) / 127
        assert bool(((weight - near).abs() <= step / 2 + 1e-7).all()), name
    size = sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))
    assert size < 0.45 * sum(parameter.nbytes for parameter in model.parameters())


def test_quantised_rows_of_zero_stay_zero() -> None:
    assert torch.equal(dequantize_rows(*quantize_rows(torch.zeros(2, 3))), torch.zeros(2, 3))


def test_single_experts_are_fused() -> None:
    folder = TINY / "per-expert-ramps"
    stored: dict[str, torch.Tensor] = {}
    for path in folder.glob("model-*.safetensors"):
        stored |= load_file(path)
    model = load_model(folder)
    prefix = next(name for name in stored if ".experts.3.up_proj" in name).rpartition(".experts.")[0]
    width = model.config.moe_intermediate_size
    fused = model.get_parameter(prefix.replace("model.language_model.", "model.") + ".experts.gate_up_proj")
    assert torch.equal(fused[3, width:], stored[f"{prefix}.experts.3.up_proj.weight"].float())


def test_one_file_with_the_hub_prefix(tmp_path: Path) -> None:
    model = load_model(FUSED)
    tensors = {name.replace("model.", "model.language_model.", 1): p.detach() for name, p in model.named_parameters()}
    tensors["mtp.norm.weight"] = torch.zeros(3)
    save_file(tensors, tmp_path / "model.safetensors")
    shutil.copy(FUSED / "config.json", tmp_path)
    assert same(load_model(tmp_path), model)


def test_dtypes(tmp_path: Path) -> None:
    model = load_model(FUSED, dtype=torch.bfloat16)
    assert model.model.embed_tokens.weight.dtype == torch.bfloat16
    assert model.get_parameter("model.layers.0.linear_attn.A_log").dtype == torch.float32
    assert {p.dtype for p in load_model(FUSED).parameters()} == {torch.float32}
    assert {p.dtype for p in load_model(FUSED, dtype=torch.float64).parameters()} == {torch.float64}


def first_shard(folder: Path) -> Path:
    return sorted(folder.glob("model-*.safetensors"))[0]


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Change the tensors of the first shard, and list what it then holds in the index."""
    path = first_shard(folder)
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    index = json.loads((folder / INDEX).read_text())
    others = {name: file for name, file in index["weight_map"].items() if file != path.name}
    (folder / INDEX).write_text(json.dumps({"weight_map": {**others, **dict.fromkeys(tensors, path.name)}}))


def drop_one(tensors: dict[str, torch.Tensor]) -> None:
    del tensors[next(iter(tensors))]


def cut_one(tensors: dict[str, torch.Tensor]) -> None:
    name = next(iter(tensors))
    tensors[name] = tensors[name].flatten()[:-1].contiguous()


def add_one(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.0.extra"] = torch.zeros(1)


BREAKAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "shard missing": (lambda folder: first_shard(folder).unlink(), r"model-00001.*is missing: the checkpoint is"),
    "shard cut": (
        lambda folder: first_shard(folder).write_bytes(first_shard(folder).read_bytes()[:1000]),
        "can't be read",
    ),
    "index no JSON": (lambda folder: (folder / INDEX).write_text("{"), "index.json can't be used"),
    "index without map": (lambda folder: (folder / INDEX).write_text("{}"), "index.json can't be used"),
    "index outside": (lambda folder: (folder / INDEX).write_text('{"weight_map": {"a": "../x"}}'), "points outside"),
    "no weights": (lambda folder: [p.unlink() for p in folder.glob("model*")], "has no weights"),
    "no config": (lambda folder: (folder / "config.json").unlink(), r"config\.json is missing"),
    "tensor missing": (lambda folder: rewrite(folder, drop_one), "lacks the tensor"),
    "tensor cut": (lambda folder: rewrite(folder, cut_one), r"has shape .* config\.json asks for"),
    "tensor unknown": (lambda folder: rewrite(folder, add_one), r"unknown or repeated tensor: model\.layers\.0\.extra"),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_broken_folders_are_one_line(tmp_path: Path, breakage: str) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(FUSED, folder)
    damage, complaint = BREAKAGES[breakage]
    damage(folder)
    with pytest.raises(CheckpointError, match=complaint) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


def test_no_folder() -> None:
    with pytest.raises(CheckpointError, match="is not a folder"):
        load_model("/nowhere/at/all")
