"""Worlds: where the truth is known. A world has latents, a decoder and the structure between them."""

from noumena.mixtures import Mixture
from noumena.worlds.annotated import Annotated, read_annotated
from noumena.worlds.balls import Balls
from noumena.worlds.benchmarks import (
    Images,
    cars3d,
    dsprites,
    falcor3d,
    isaac3d,
    mpi3d,
    shapes3d,
    smallnorb,
    sprites,
)
from noumena.worlds.columns import Prepared
from noumena.worlds.degenerate import DegenerateWorld, degenerate, two_bases
from noumena.worlds.families import family
from noumena.worlds.folders import folder
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
from noumena.worlds.tables import Table, read_prepared, read_table
from noumena.worlds.world import Sample, World

__all__ = [
    "Annotated",
    "Balls",
    "Counterexample",
    "DegenerateWorld",
    "Graph",
    "Images",
    "Law",
    "Layers",
    "Mixture",
    "MixtureWorld",
    "Pinwheel",
    "Prepared",
    "Rooms",
    "Sample",
    "SlotWorld",
    "Table",
    "World",
    "cars3d",
    "degenerate",
    "dsprites",
    "equal_distances",
    "falcor3d",
    "family",
    "folder",
    "hidden_variables",
    "isaac3d",
    "law",
    "layered",
    "mixed",
    "mpi3d",
    "non_degenerate",
    "overlapping",
    "pinwheel",
    "random_graph",
    "read_annotated",
    "read_prepared",
    "read_table",
    "shapes3d",
    "smallnorb",
    "sprites",
    "structured",
    "swapped_halves",
    "three_lines",
    "two_bases",
]
