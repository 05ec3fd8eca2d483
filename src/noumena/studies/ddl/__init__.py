"""Diverse dictionary learning: its figures and tables, and what they leave out."""
