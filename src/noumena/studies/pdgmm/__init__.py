"""Degenerate mixtures: tables of synthetic worlds and of balls, and what they leave out."""
