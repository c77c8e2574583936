"""Where it is done: Docker containers, images, workspaces, clean-up."""
