"""Random weights to start a training from."""

from __future__ import annotations

import math

import torch
from torch import nn

from engine.config import CloverConfig
from engine.model.clover import Clover


@torch.no_grad()
def initialise(config: CloverConfig, seed: int) -> Clover:
    """A model in float32: normal matrices (0.02; the ones that write to the residual stream less, by depth), norms at
    one, memory half-lives spread from a few to some hundred rows, preview softmax mildly sharp."""
    torch.manual_seed(seed)
    model = Clover(config).float()
    residual = 0.02 / math.sqrt(2 * config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        last = name.rsplit(".", 2)[-2] if name.endswith(".weight") else name.rsplit(".", 1)[-1]
        if name.endswith("linear_attn.norm.weight"):
            nn.init.ones_(parameter)
        elif last.endswith("norm"):
            nn.init.zeros_(parameter)
        elif last == "A_log":
            parameter.copy_(torch.empty_like(parameter).uniform_(1, 8).log())
        elif last == "dt_bias":
            step = torch.empty_like(parameter).uniform_(math.log(1e-3), math.log(0.1)).exp()
            parameter.copy_(step + torch.log(-torch.expm1(-step)))  # softplus^-1
        elif last == "conv1d":
            nn.init.uniform_(parameter, -0.5, 0.5)
        elif last == "conv_right_weight":
            nn.init.uniform_(parameter, -0.25, 0.25)
        elif last == "bd_softmax_logit_scale":
            nn.init.constant_(parameter, 4.0)
        elif last in ("bd_softmax_history_bias", "bd_softmax_history_c"):
            nn.init.constant_(parameter, 1.0)
        elif last in ("o_proj", "out_proj", "down_proj"):
            nn.init.normal_(parameter, std=residual)
        else:
            nn.init.normal_(parameter, std=0.02)
    return model
