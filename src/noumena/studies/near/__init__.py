"""Near-identifiability: how near two runs are, what disentangles, what generalises."""
