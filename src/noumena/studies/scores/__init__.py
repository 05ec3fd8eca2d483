"""Known answers: what the scores of the field say of cases whose answer is known."""
