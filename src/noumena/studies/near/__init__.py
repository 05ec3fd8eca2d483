"""Studies of near-identifiability (paper 004)."""
