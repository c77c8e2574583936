"""Backends: where a turn of the conversation comes from."""
