"""Worlds: where the truth is known. A world has latents, a decoder and the structure between them."""

from noumena.deprecated import moved
from noumena.mixtures import Mixture
from noumena.worlds.balls import Balls
from noumena.worlds.degenerate import DegenerateWorld, degenerate, two_bases
from noumena.worlds.families import family
from noumena.worlds.graphs import Graph, random_graph
from noumena.worlds.laws import Law, law
from noumena.worlds.mixings import Layers, layered
from noumena.worlds.pinwheel import Pinwheel, pinwheel
from noumena.worlds.priors import (
    Counterexample,
    MixtureWorld,
    equal_distances,
    hidden_variables,
    mixed,
    non_degenerate,
    swapped_halves,
    three_lines,
)
from noumena.worlds.rooms import Rooms
from noumena.worlds.slots import SlotWorld, overlapping
from noumena.worlds.structured import structured
from noumena.worlds.world import Sample, World

__all__ = [
    "Balls",
    "Counterexample",
    "DegenerateWorld",
    "Graph",
    "Law",
    "Layers",
    "Mixture",
    "MixtureWorld",
    "Pinwheel",
    "Rooms",
    "Sample",
    "SlotWorld",
    "World",
    "degenerate",
    "equal_distances",
    "family",
    "hidden_variables",
    "law",
    "layered",
    "mixed",
    "non_degenerate",
    "overlapping",
    "pinwheel",
    "random_graph",
    "structured",
    "swapped_halves",
    "three_lines",
    "two_bases",
]

_IN_DATA = (
    "Images", "cars3d", "dsprites", "falcor3d", "folder", "isaac3d", "mpi3d",
    "read_annotated", "read_prepared", "read_table", "shapes3d", "smallnorb", "sprites",
)  # fmt: skip
_RENAMED = {"Annotated": "AnnotatedTable", "Prepared": "PreparedTable", "Table": "DataTable"}
__getattr__ = moved(
    "noumena.worlds", {old: f"noumena.data.{new}" for old, new in (_RENAMED | {n: n for n in _IN_DATA}).items()}
)
