"""Discovery: from a table to latents, with what can be trusted about each."""

from noumena.discovery.beside import LabelBeside, beside
from noumena.discovery.choice import Choice, Setting, choose
from noumena.discovery.discover import discover
from noumena.discovery.record import Discovery
from noumena.discovery.trust import LatentTrust, MovedColumn

__all__ = [
    "Choice",
    "Discovery",
    "LabelBeside",
    "LatentTrust",
    "MovedColumn",
    "Setting",
    "beside",
    "choose",
    "discover",
]
