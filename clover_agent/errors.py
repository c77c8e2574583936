"""Faults that end a command with one line and an exit code."""

from __future__ import annotations


class UsageError(Exception):
    """What the user asked for can't be done as asked; the message says what to do. Exit code 2."""
