"""Checkpoint folders: safetensors shards into a model, and a model into shards.

Reading accepts the Hugging Face forms of the family: prefix `model.` or `model.language_model.`, experts fused or one
tensor each, `conv_right_weight` of rank 2 or 3, one file or an index of shards, int8 rows (`engine.quantize`).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.config import CloverConfig
from engine.errors import CheckpointError
from engine.model.clover import Clover
from engine.quantize import SCALE_SUFFIX, dequantize_rows, quantize_rows

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
SHARD_BYTES = 16 << 20

_IGNORED = ("mtp.", "model.visual.", "visual.")  # parts of the family that Clover has no use for
_EXPERT_PARTS = ("gate_proj", "up_proj", "down_proj")
_EXPERT = re.compile(r"(?P<stem>.*\.experts)\.(?P<number>\d+)\.(?P<part>gate_proj|up_proj|down_proj)\.weight")
# Small tensors whose rounding to bfloat16 would show; kept as stored where they are stored in float32.
_KEPT = ("A_log", "dt_bias", "bd_softmax_logit_scale", "bd_softmax_history_bias", "bd_softmax_history_c")


def load_model(folder: str | Path, device: str | torch.device = "cpu", dtype: torch.dtype | None = None) -> Clover:
    """Build the model of a checkpoint folder, ready for inference.

    dtype: of the weights; by default float32 on a CPU and bfloat16 elsewhere. Raises CheckpointError, one line naming
    the file or tensor that is missing, unreadable or misshapen.
    """
    folder, device = Path(folder), torch.device(device)
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder: give the folder of a Clover checkpoint")
    config = CloverConfig.load(folder)
    dtype = dtype or (torch.float32 if device.type == "cpu" else torch.bfloat16)
    with torch.device("meta"):
        model = Clover(config)
    pending = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    for name, stored in _merged_experts(_dequantized(_stored(folder)), config.num_experts):
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if name not in pending:
            raise CheckpointError(f"{folder} holds an unknown or repeated tensor: {name}")
        shape = pending.pop(name)
        tensor = stored.squeeze(1) if name.endswith(".conv_right_weight") and stored.dim() == 3 else stored
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"{name} in {folder} has shape {list(tensor.shape)}, config.json asks for {list(shape)}"
            )
        keep = name.rpartition(".")[2] in _KEPT and tensor.dtype.itemsize > dtype.itemsize
        _assign(model, name, tensor.to(device, tensor.dtype if keep else dtype))
    if pending:
        more = f" and {len(pending) - 1} more" if len(pending) > 1 else ""
        raise CheckpointError(f"{folder} lacks the tensor {next(iter(pending))}{more}")
    if config.tie_word_embeddings:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model.eval()


def save_checkpoint(model: Clover, folder: str | Path, *, int8: bool = False, shard_bytes: int = SHARD_BYTES) -> None:
    """Write a model's weights as shards of at most `shard_bytes`, with an index. config.json is the caller's.

    int8: matrices as int8 rows, everything else in float32; otherwise everything in the model's own dtype. Shards of
    an earlier save in the folder are removed.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, parameter in model.named_parameters():
        for stored, tensor in _to_store(name, parameter.detach().cpu().contiguous(), int8=int8):
            if shards[-1] and size + tensor.nbytes > shard_bytes:
                shards.append({})
                size = 0
            shards[-1][stored] = tensor
            size += tensor.nbytes
    for old in folder.glob("model*.safetensors*"):
        old.unlink()
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(shard, file))
    total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _to_store(name: str, tensor: Tensor, *, int8: bool) -> Iterator[tuple[str, Tensor]]:
    if not int8:
        yield name, tensor
    elif tensor.dim() < 2 or name.endswith((".conv1d.weight", ".conv_right_weight")):
        yield name, tensor.float()
    else:
        values, scale = quantize_rows(tensor)
        yield name, values
        yield name + SCALE_SUFFIX, scale


def _stored(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of the folder that the model has a use for, under its `model.` name, one file after the other."""
    for file, names in _files(folder).items():
        path = folder / file
        try:
            with safe_open(path, framework="pt") as tensors:
                for name in names if names is not None else tensors.keys():
                    if not name.startswith(_IGNORED):
                        yield name.replace("model.language_model.", "model.", 1), tensors.get_tensor(name)
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing: the checkpoint is incomplete") from None
        except (OSError, SafetensorError) as fault:
            raise CheckpointError(f"{path} can't be read: {fault}") from None


def _files(folder: Path) -> Mapping[str, list[str] | None]:
    """Names of the tensors by file; None for all of a file's."""
    index = folder / INDEX
    if not index.is_file():
        if not (folder / SINGLE).is_file():
            raise CheckpointError(f"{folder} has no weights: neither {INDEX} nor {SINGLE} is there")
        return {SINGLE: None}
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files: dict[str, list[str] | None] = {}
        for name, file in weight_map.items():
            if Path(file).name != file:
                raise CheckpointError(f"{index} points outside the folder: {file}")
            names = files.setdefault(file, [])
            assert names is not None
            names.append(name)
        return files
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise CheckpointError(f"{index} can't be used: {type(fault).__name__} {fault}") from None


def _dequantized(tensors: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Join int8 values with their scales, in whichever order they come."""
    waiting: dict[str, Tensor] = {}
    for name, tensor in tensors:
        stem = name.removesuffix(SCALE_SUFFIX)
        if stem == name and tensor.dtype != torch.int8:
            yield name, tensor
        elif stem not in waiting:
            waiting[stem] = tensor
        else:
            other = waiting.pop(stem)
            yield stem, dequantize_rows(other, tensor) if other.dtype == torch.int8 else dequantize_rows(tensor, other)
    if waiting:
        raise CheckpointError(f"{next(iter(waiting))} has int8 values or a scale, but not both")


def _merged_experts(tensors: Iterator[tuple[str, Tensor]], experts: int) -> Iterator[tuple[str, Tensor]]:
    """Stack tensors of single experts into the fused form, layer by layer as each is complete."""
    parts: dict[str, dict[tuple[str, int], Tensor]] = defaultdict(dict)
    for name, tensor in tensors:
        match = _EXPERT.fullmatch(name)
        if match is None:
            yield name, tensor
            continue
        stem, found = match["stem"], parts[match["stem"]]
        found[match["part"], int(match["number"])] = tensor
        if all((part, number) in found for part in _EXPERT_PARTS for number in range(experts)):
            gate, up, down = (torch.stack([found[part, n] for n in range(experts)]) for part in _EXPERT_PARTS)
            yield f"{stem}.gate_up_proj", torch.cat((gate, up), dim=1)
            yield f"{stem}.down_proj", down
            del parts[stem]
    for stem, found in parts.items():
        part, number = next((p, n) for p in _EXPERT_PARTS for n in range(experts) if (p, n) not in found)
        raise CheckpointError(f"the checkpoint lacks {stem}.{number}.{part}.weight")


def _assign(model: Clover, name: str, tensor: Tensor) -> None:
    module, _, parameter = name.rpartition(".")
    setattr(model.get_submodule(module), parameter, torch.nn.Parameter(tensor, requires_grad=False))
