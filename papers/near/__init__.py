"""Near-identifiability: how near two runs are, what disentangles, what generalises.

Walter Nelson, Marco Fumero, Theofanis Karaletsos and Francesco Locatello, *Statistical and structural identifiability
in representation learning*, International Conference on Learning Representations (ICLR), 2026,
https://arxiv.org/abs/2603.11970
"""
