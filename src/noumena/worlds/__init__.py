"""Worlds: where the truth is known. A world has latents, a decoder and the structure between them."""

from noumena.worlds.families import family
from noumena.worlds.laws import Law, law
from noumena.worlds.mixtures import Mixture
from noumena.worlds.slots import SlotWorld, overlapping
from noumena.worlds.structured import structured
from noumena.worlds.tables import Table, read_table
from noumena.worlds.world import Sample, World

__all__ = [
    "Law",
    "Mixture",
    "Sample",
    "SlotWorld",
    "Table",
    "World",
    "family",
    "law",
    "overlapping",
    "read_table",
    "structured",
]
