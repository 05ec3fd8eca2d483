"""Cells of committed rows by the names that their functions have today.

A cell is known by a digest of its function's name and its parameters, so a function that moves would take its rows with
it into oblivion. Run from the folder of the repository: ``python papers/tools/rename_cells.py noumena.studies.``: every
cell whose function was called so, with that beginning, gets the digest that its study asks for today. All else of a
table stays as it is, byte by byte; cells that no study asks for stay too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from noumena.studies import Study, study_files
from noumena.studies.engine import digest, digest_of


def new_names(study: Study, beginning: str) -> dict[str, str]:
    """The cell of today for every old one, of the grid and of the miniature."""
    cell = study.module.cell
    old = f"{beginning}{cell.__module__}.{cell.__qualname__}"
    asked = study.cells() + (study.cells(tiny=True) if hasattr(study.module, "tiny") else [])
    return {digest_of(old, parameters): digest(cell, parameters) for parameters in asked}


def rename(study: Study, beginning: str) -> tuple[int, int]:
    """Rename the cells of a study's table; how many there were, and how many have another name now."""
    if not study.store.path.exists():
        return 0, 0
    names, text = new_names(study, beginning), study.store.path.read_bytes()
    before = {row["cell"] for row in study.store.rows()}
    renamed = before & names.keys()
    for cell in renamed:
        text = text.replace(cell.encode(), names[cell].encode())
    study.store.path.write_bytes(text)
    return len(before), len(renamed)


def main() -> None:
    """Rename the cells of every study in ``papers``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("beginning", help="of the old names: that of today comes after it")
    parser.add_argument("--results", type=Path, default=Path("results"))
    given = parser.parse_args()
    for path in study_files():
        study = Study(path, given.results)
        cells, renamed = rename(study, given.beginning)
        print(f"{study.name}: {renamed} of {cells} cells have a new name")


if __name__ == "__main__":
    main()
