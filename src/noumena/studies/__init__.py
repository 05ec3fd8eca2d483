"""Studies: worlds × estimators × seeds → tidy rows, beside published numbers."""

from noumena.studies.study import Study, get, names

__all__ = ["Study", "get", "names"]
