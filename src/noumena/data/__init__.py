"""Data: users' files as tables and images, and the field's published data sets, read without running their code."""

from noumena.data.annotated import Annotated, read_annotated
from noumena.data.benchmarks import Images, cars3d, dsprites, falcor3d, isaac3d, mpi3d, shapes3d, smallnorb, sprites
from noumena.data.columns import Prepared
from noumena.data.folders import folder
from noumena.data.tables import Table, read_prepared, read_table

__all__ = [
    "Annotated",
    "Images",
    "Prepared",
    "Table",
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
