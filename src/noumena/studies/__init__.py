"""Studies: worlds × estimators × seeds → tidy rows, beside published numbers."""
