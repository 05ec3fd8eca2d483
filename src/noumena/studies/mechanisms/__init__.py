"""Studies of mechanistic independence (paper 002)."""
