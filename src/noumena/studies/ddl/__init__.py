"""Studies of diverse dictionary learning: its synthetic figures and tables, and what they leave out."""
