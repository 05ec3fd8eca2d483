"""Data: users' files as tables and images, and the field's published data sets, read without running their code."""

from noumena.data.annotated import AnnotatedTable, read_annotated
from noumena.data.benchmarks import Images, cars3d, dsprites, falcor3d, isaac3d, mpi3d, shapes3d, smallnorb, sprites
from noumena.data.columns import PreparedTable
from noumena.data.folders import folder
from noumena.data.tables import DataTable, read_prepared, read_table
from noumena.deprecated import moved

__all__ = [
    "AnnotatedTable",
    "DataTable",
    "Images",
    "PreparedTable",
    "cars3d",
    "dsprites",
    "falcor3d",
    "folder",
    "isaac3d",
    "mpi3d",
    "read_annotated",
    "read_prepared",
    "read_table",
    "shapes3d",
    "smallnorb",
    "sprites",
]

_OLD = {"Annotated": "AnnotatedTable", "Prepared": "PreparedTable", "Table": "DataTable"}
__getattr__ = moved("noumena.data", {old: f"noumena.data.{new}" for old, new in _OLD.items()})
