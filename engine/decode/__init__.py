"""Decode modes and controls."""
