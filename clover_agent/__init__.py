"""clover-agent: a coding agent on its own block-diffusion language model."""

__version__ = "0.1.0"
