"""Block-diffusion engine: checkpoints, model, decoding, training. Knows no agent and no Docker."""
