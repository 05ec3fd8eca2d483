"""Known answers: what the scores of the field say of cases whose answer is known.

Of no single paper: the scores are those of ``noumena.metrics``, each of which names its authors.
"""
