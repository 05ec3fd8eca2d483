"""What the scores of the field say of cases whose answer is known."""
