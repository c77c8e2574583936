"""Training of block-diffusion models of the Clover architecture."""
