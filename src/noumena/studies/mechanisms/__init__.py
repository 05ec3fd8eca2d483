"""Mechanistic independence: slots that overlap."""
