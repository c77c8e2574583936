"""Failures that really happened: functions of the corpus called with guessed arguments, sound and mutated."""
