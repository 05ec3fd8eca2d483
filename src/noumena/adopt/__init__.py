"""Adopt: the modules and functions that users bring, looked at without being changed, or refused in one sentence."""
