"""Studies: worlds × estimators × seeds → tidy rows, beside published numbers."""

from noumena.studies.files import study_files
from noumena.studies.study import Study
from noumena.studies.study import get as get
from noumena.studies.study import names as names

__all__ = ["Study", "study_files"]
