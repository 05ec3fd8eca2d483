"""Studies of potentially degenerate Gaussian mixtures (paper 001): its synthetic tables, and what they leave out."""
