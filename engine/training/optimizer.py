"""Muon for the hidden matrices, AdamW for the rest, and the learning rate over a run's time.

Muon (Jordan et al. 2024): the momentum's nearest semi-orthogonal matrix, by five Newton-Schulz steps, is the update.
Scaled by 0.2 sqrt(max(rows, columns)) its entries are of AdamW's size (Liu et al. 2025), so both share one rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
MIN_SIDE = 32


def orthogonalise(gradients: Tensor, steps: int = 5) -> Tensor:
    """Approximately the semi-orthogonal polar factors of gradients [..., rows, columns], in bfloat16 on a GPU."""
    x = gradients.to(torch.bfloat16 if gradients.is_cuda else torch.float32)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(steps):
        gram = x @ x.transpose(-1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(-1, -2) if tall else x


def is_matrix(name: str, parameter: Tensor) -> bool:
    """Whether Muon takes it: a hidden matrix or a stack of them; not embeddings, convolutions, or thin projections."""
    return parameter.dim() >= 2 and min(parameter.shape[-2:]) >= MIN_SIDE and "embed" not in name and "head" not in name


class Optimizer:
    """Both optimisers over named parameters; every call of `step` sets the rate first."""

    def __init__(self, parameters: Mapping[str, torch.nn.Parameter], decay: float = 0.05, momentum: float = 0.95):
        self._momentum, self._decay = momentum, decay
        self._groups: dict[tuple[int, ...], list[torch.nn.Parameter]] = {}
        others: list[torch.nn.Parameter] = []
        for name, parameter in parameters.items():
            if is_matrix(name, parameter):
                self._groups.setdefault(tuple(parameter.shape), []).append(parameter)
            else:
                others.append(parameter)
        self._velocity = {
            shape: torch.zeros(len(group), *shape, device=group[0].device) for shape, group in self._groups.items()
        }
        self._adam = torch.optim.AdamW(
            others, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=others[0].is_cuda or None
        )
        self._all = list(parameters.values())

    @torch.no_grad()
    def step(self, rate: float, clip: float = 1.0) -> Tensor:
        """One update from the gradients, which are then cleared. Returns their norm before clipping.

        A step whose gradient is not finite changes nothing but the moments' decay.
        """
        gradients = [p.grad for p in self._all if p.grad is not None]
        norm = torch.stack(torch._foreach_norm(gradients)).norm()  # pyright: ignore[reportPrivateImportUsage]
        finite = norm.isfinite()
        scale = torch.where(finite, (clip / (norm + 1e-6)).clamp(max=1.0), 0.0)
        for gradient in gradients:
            gradient.copy_(torch.where(finite, gradient * scale, 0.0))
        for shape, group in self._groups.items():
            self._step_matrices(shape, group, rate)
        for settings in self._adam.param_groups:
            settings["lr"] = rate
        self._adam.step()
        for parameter in self._all:
            parameter.grad = None
        return norm

    def _step_matrices(self, shape: tuple[int, ...], group: list[torch.nn.Parameter], rate: float) -> None:
        gradient = torch.stack([torch.zeros_like(p) if p.grad is None else p.grad for p in group])
        velocity = self._velocity[shape]
        velocity.lerp_(gradient, 1 - self._momentum)
        update = orthogonalise(gradient.lerp_(velocity, self._momentum))
        scale = 0.2 * math.sqrt(max(shape[-2:]))
        for parameter, change in zip(group, update, strict=True):
            parameter.mul_(1 - rate * self._decay).add_(change, alpha=-rate * scale)

    def state_dict(self) -> dict[str, Any]:
        """Moments, for a resumed run."""
        return {"adam": self._adam.state_dict(), "velocity": self._velocity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the moments of `state_dict`."""
        self._adam.load_state_dict(state["adam"])
        for shape, velocity in self._velocity.items():
            velocity.copy_(state["velocity"][shape])


def rate_at(done: float, peak: float, warm: float = 0.02, flat: float = 0.4, floor: float = 0.02) -> float:
    """Learning rate at share `done` of the run: linear warm-up, flat, then a cosine to `floor` times the peak."""
    if done < warm:
        return peak * max(done / warm, 0.01)
    if done < flat:
        return peak
    fall = min((done - flat) / (1 - flat), 1.0)
    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * fall)))
