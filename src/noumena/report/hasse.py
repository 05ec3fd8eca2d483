"""Orders: what a structure says about its latents, as a Hasse diagram of the closure and as an UpSet plot.

Latents with equal columns form an atom. Atoms are ordered by their observations: ``t`` lies below ``r`` when
``col(t) ⊂ col(r)``, that is when ``r ∈ cl(t)``. The same columns read as sets are the regions of the Venn diagram of
the observations' latents.

Reference: Zheng et al. (2026), Definitions 1–3, for atoms; Lex et al. (2014), "UpSet: visualization of intersecting
sets"; Sugiyama, Tagawa and Toda (1981), "Methods for visual understanding of hierarchical system structures", for
layers and the barycentre sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import isotonic_regression

from noumena.checks import count, one_of, require
from noumena.report import svg
from noumena.report.plots import HOVER, VERDICTS, sign
from noumena.report.svg import Grid, element, text
from noumena.structure import LatentSet, Structure

__all__ = ["covers", "hasse", "levels", "strict_order", "upset"]

_SWEEPS = 12
_THICK, _RISE, _APART, _MARGIN = 22.0, 46.0, (12.0, 4.0), 14.0
_LEAST, _WIDEST, _BAR = 340.0, 640.0, 44.0


# ---- the order ---------------------------------------------------------------------------------------------


def strict_order(structure: Structure) -> Any:
    """``below[a, b]``: atom ``a`` acts only where atom ``b`` acts, and on fewer; a sparse boolean (atom, atom).

    >>> strict_order(Structure([[1, 1, 0], [0, 1, 0], [0, 0, 1]])).toarray().astype(int)
    array([[0, 1, 0],
           [0, 0, 0],
           [0, 0, 0]])
    """
    first = [min(atom.indices) for atom in structure.atoms]
    order: Any = structure.order
    below = order[first][:, first].astype(float) - sparse.eye_array(len(first))
    below.eliminate_zeros()
    return below.astype(bool)


def covers(below: np.ndarray) -> np.ndarray:
    """The transitive reduction of a strict order (atom, atom): pairs with nothing between them.

    >>> covers(np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)).astype(int)
    array([[0, 1, 0],
           [0, 0, 1],
           [0, 0, 0]])
    """
    steps = below.astype(np.int64)
    return below & (steps @ steps == 0)


def levels(below: np.ndarray) -> np.ndarray:
    """How many atoms the longest chain strictly below each atom of a strict order has.

    >>> levels(np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=bool))
    array([0, 1, 2])
    """
    level = np.zeros(len(below), dtype=np.int64)
    for a in np.argsort(below.sum(axis=0), kind="stable"):
        level[a] = (level[below[:, a]] + 1).max(initial=0)
    return level


# ---- Hasse diagram -----------------------------------------------------------------------------------------


def hasse(structure: Structure, *, verdicts: Sequence[str] | None = None, most: int = 40) -> str:
    """Atoms from the bottom up, a line from each to the next larger ones that act wherever it acts.

    Colour and sign give the verdict of an atom, the worst of its latents'. Above ``most`` atoms only those comparable
    to another are drawn, the most related first.

    >>> hasse(Structure([[1, 1, 1], [0, 1, 1], [0, 0, 1]])).count('class="nm-edge"')
    2
    """
    kinds = _kinds(structure, verdicts)
    below = strict_order(structure)
    related = np.asarray(below.sum(axis=0)).ravel() + np.asarray(below.sum(axis=1)).ravel()
    kept = _kept(related, count(most, "most"))
    below = below[kept][:, kept].toarray()
    nodes = [_Node(structure, structure.atoms[k], kinds[k]) for k in kept]
    drawing = _Drawing(nodes, covers(below), levels(below))
    named = [kind for kind in VERDICTS if any(node.kind == kind for node in nodes)]
    words, height = _words(_sentences(related, kept), named, drawing.height, drawing.width)
    title = f"Order of {len(structure.atoms)} atoms of {structure.n_latents} latents by the observations they act on"
    return svg.document(drawing.width, drawing.height + height, title, drawing.draw() + words)


def _kinds(structure: Structure, verdicts: Sequence[str] | None) -> list[str | None]:
    """One verdict per atom: the worst of its latents'."""
    if verdicts is None:
        return [None] * len(structure.atoms)
    fits = len(verdicts) == structure.n_latents
    require(fits, f"There must be one verdict per latent, {structure.n_latents}.", len(verdicts))
    chosen = [one_of(kind, "verdict", tuple(VERDICTS)) for kind in verdicts]
    worst = ("not identified", "open", "identified")
    return [min((chosen[j] for j in atom), key=worst.index) for atom in structure.atoms]


def _kept(related: np.ndarray, most: int) -> np.ndarray:
    """The atoms to draw, in order, given how many others each is comparable to."""
    if len(related) <= most:
        return np.arange(len(related))
    candidates = np.flatnonzero(related > 0) if related.any() else np.arange(len(related))
    return np.sort(candidates[np.argsort(-related[candidates], kind="stable")][:most])


def _sentences(related: np.ndarray, kept: np.ndarray) -> list[str]:
    if len(related) == 1:
        return ["One atom: every latent acts on the same observations."]
    if related.any():
        sentences = ["A line upwards: the upper acts wherever the lower acts."]
    else:
        sentences = ["An antichain: no two atoms are comparable, none acts on all observations of another."]
    left = np.delete(related, kept)
    why = {"comparable to no other": int((left == 0).sum()), "with the fewest relations": int((left > 0).sum())}
    if left.size:
        reasons = ", ".join(f"{n} {reason}" for reason, n in why.items() if n)
        sentences.append(f"{left.size} of {len(related)} atoms are left out: {reasons}.")
    return sentences


def _words(sentences: list[str], kinds: list[str], top: float, width: float) -> tuple[str, float]:
    """Sentences and a legend under a drawing; and the height taken."""
    drawn, y = "", top
    for sentence in sentences:
        lines, height = svg.paragraph(sentence, 10, y, width - 20)
        drawn, y = drawn + lines, y + height
    items = [(sign(kind, 7), kind) for kind in kinds]
    signs, height = svg.legend(items, 10, y + 8, width - 20) if items else ("", 0)
    return drawn + signs, y + 8 + height - top


@dataclass(frozen=True)
class _Node:
    """One atom as a named pill, with its verdict's sign where it has one."""

    structure: Structure
    atom: LatentSet
    kind: str | None

    @property
    def long(self) -> float:
        return max(svg.extent(svg.short_names(self.atom.names), 12) + (36 if self.kind else 18), 34)

    @property
    def told(self) -> str:
        observations = _acting(self.structure, self.atom)
        closure = svg.listed(self.structure.closure(min(self.atom.indices)).names)
        return f"{svg.listed(self.atom.names)}: {observations}; closure {closure}" + f"; {self.kind}" * bool(self.kind)

    def draw(self, x: float, y: float, *, upright: bool) -> str:
        """The atom's names in a box, with the sign of its verdict."""
        box = {"x": -self.long / 2, "y": -_THICK / 2, "width": self.long, "height": _THICK, "rx": _THICK / 2}
        color = VERDICTS.get(self.kind or "", svg.ACCENT)
        drawn = element("rect", **box, fill=svg.PAPER, stroke=color, stroke_width=1.4)
        drawn += text(9 if self.kind else 0, 4.2, svg.short_names(self.atom.names), fill=svg.INK, text_anchor="middle")
        if self.kind:
            back = " rotate(90)" if upright else ""
            drawn += element("g", sign(self.kind, 8), transform=f"translate({svg.number(13 - self.long / 2)} 0){back}")
        place = f"translate({svg.number(x)} {svg.number(y)})" + (" rotate(-90)" if upright else "")
        return element("g", svg.hint(self.told) + drawn, class_="nm-atom", transform=place)


class _Drawing:
    """Nodes placed in layers, lines of several layers led between the nodes they pass."""

    def __init__(self, nodes: list[_Node], covering: np.ndarray, level: np.ndarray):
        self.nodes = nodes
        self.level, self.routes = _routes(level, covering)
        link = np.zeros((len(self.level), len(self.level)), dtype=bool)
        for route in self.routes:
            link[route[:-1], route[1:]] = link[route[1:], route[:-1]] = True
        rows = _arranged(self.level, link)
        long = [node.long for node in nodes]
        self.upright = any(sum(long[a] + _APART[0] for a in row if a < len(nodes)) > _WIDEST for row in rows)
        self.tall = max(long) if self.upright else _THICK
        half = np.full(len(self.level), 3.0)
        half[: len(nodes)] = _THICK / 2 if self.upright else np.array(long) / 2
        x = _spread(rows, link, half + _APART[self.upright] / 2)
        left, right = float((x - half).min()), float((x + half).max())
        self.width = max(right - left + 2 * _MARGIN, _LEAST)
        self.x = x + (self.width - left - right) / 2
        self.height = _MARGIN + (self.level.max() + 1) * self.tall + self.level.max() * _RISE + 12
        self.y = self.height - 12 - self.tall / 2 - self.level * (self.tall + _RISE)

    def draw(self) -> str:
        """All nodes, each with the lines that lead up from it."""
        edges = [""] * len(self.nodes)
        for route in self.routes:
            edges[route[0]] += self._edge(route)
        groups = [
            element("g", edges[a] + node.draw(self.x[a], self.y[a], upright=self.upright), class_="nm-latent")
            for a, node in enumerate(self.nodes)
        ]
        return HOVER + element("g", "".join(groups), class_="nm-latents")

    def _edge(self, route: list[int]) -> str:
        lower, upper = self.nodes[route[0]], self.nodes[route[-1]]
        half = [self._half(k) for k in route]
        data = f"M{svg.number(self.x[route[0]])} {svg.number(self.y[route[0]] - half[0])}"
        for k, (a, b) in enumerate(pairwise(route)):
            start, end = self.y[a] - half[k], self.y[b] + half[k + 1]
            x, at, middle, to = map(svg.number, (self.x[a], self.x[b], (start + end) / 2, end))
            passing = f"V{svg.number(self.y[b] - half[k + 1])}" if b >= len(self.nodes) else ""
            data += f"C{x} {middle} {at} {middle} {at} {to}{passing}"
        told = svg.hint(f"{svg.listed(upper.atom.names)} acts wherever {svg.listed(lower.atom.names)} acts")
        pen = {"stroke": svg.SOFT, "stroke_width": 1.4, "stroke_opacity": 0.65, "fill": "none"}
        return element("path", told, class_="nm-edge", d=data, **pen)

    def _half(self, node: int) -> float:
        """Half of a node's height; a line passing a layer keeps straight as far as the tallest node reaches."""
        if node >= len(self.nodes):
            return self.tall / 2
        return self.nodes[node].long / 2 if self.upright else _THICK / 2


def _routes(level: np.ndarray, covering: np.ndarray) -> tuple[np.ndarray, list[list[int]]]:
    """Every cover as a path that visits each layer, through new places on the layers it passes."""
    layers, routes = level.tolist(), []
    for a, b in np.argwhere(covering).tolist():
        passed = range(layers[a] + 1, layers[b])
        routes.append([a, *range(len(layers), len(layers) + len(passed)), b])
        layers += passed
    return np.array(layers), routes


def _arranged(level: np.ndarray, link: np.ndarray) -> list[np.ndarray]:
    """The places of each layer from left to right, with few crossings: the best of some barycentre sweeps."""
    lone = ~link.any(axis=0)
    rows = [np.flatnonzero((level == k) & ~lone) for k in range(level.max() + 1)]
    rows[0] = np.r_[rows[0], np.flatnonzero(lone)]
    best = rows
    for sweep in range(_SWEEPS):
        rows = _swept(rows, link, upward=sweep % 2 == 0)
        if _crossings(rows, link) < _crossings(best, link):
            best = rows
    return best


def _swept(rows: list[np.ndarray], link: np.ndarray, *, upward: bool) -> list[np.ndarray]:
    """Layer by layer, sort by the mean place of the neighbours in the layer before; what has none keeps its place."""
    rows = list(rows)
    for before, k in pairwise(range(len(rows)) if upward else reversed(range(len(rows)))):
        near = link[np.ix_(rows[before], rows[k])]
        total, own = near.sum(axis=0), np.arange(len(rows[k]))
        mean = (np.arange(len(rows[before])) @ near) / np.maximum(total, 1)
        wanted = np.where(total > 0, mean, np.where(link[rows[k]].any(axis=1), own, np.inf))
        rows[k] = rows[k][np.argsort(wanted, kind="stable")]
    return rows


def _crossings(rows: list[np.ndarray], link: np.ndarray) -> int:
    total = 0
    for lower, upper in pairwise(rows):
        a, b = np.nonzero(link[np.ix_(lower, upper)])
        total += int(((a[:, None] < a) & (b[:, None] > b)).sum())
    return total


def _spread(rows: list[np.ndarray], link: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Places near the mean of their neighbours', in each layer's order and ``half`` + ``half`` apart."""
    x = np.zeros(len(link))
    for row in rows:
        x[row] = _apart(np.zeros(len(row)), half[row])
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 else rows[::-1]:
            total = link[row].sum(axis=1)
            wanted = np.where(total > 0, link[row] @ x / np.maximum(total, 1), x[row])
            x[row] = _apart(wanted, half[row])
    return x


def _apart(wanted: np.ndarray, half: np.ndarray) -> np.ndarray:
    """The nearest places to the wanted ones that keep order and distance."""
    offset = np.cumsum(half) + np.cumsum(np.r_[0, half[:-1]])
    return isotonic_regression(wanted - offset).x + offset


# ---- UpSet plot --------------------------------------------------------------------------------------------


def upset(structure: Structure, *, most: int = 30) -> str:
    """Atoms as columns with a bar for their latents, observations as rows with a bar for theirs.

    A filled dot: the observation depends on the atom's latents. Columns go from the atom of most latents to that of
    fewest, then from most observations to fewest. Of more than ``most`` rows or columns the largest are drawn.

    >>> upset(Structure([[1, 1, 0], [1, 1, 1]])).count('class="member"')
    3
    """
    most = count(most, "most")
    atoms = sorted(structure.atoms, key=lambda atom: (-len(atom), -_weight(structure, atom), min(atom.indices)))
    sizes = np.diff(structure.support.indptr)
    rows, shown = np.sort(np.argsort(-sizes, kind="stable")[:most]), atoms[:most]
    grid = _matrix([structure.observed[i] for i in rows], shown)
    member = structure.support[rows][:, [min(atom.indices) for atom in shown]].toarray()
    columns = [_column(grid, k, member[:, k], svg.listed(atom.names)) for k, atom in enumerate(shown)]
    content = _ground(grid, member) + "".join(columns) + grid.row_labels() + grid.column_labels()
    content += _atom_bars(grid, shown, structure) + _row_bars(grid, sizes[rows].tolist())
    sentences = ["A dot: the row's observation depends on the column's latents."]
    for name, drawn, n in (("atoms", len(shown), len(atoms)), ("observations", len(rows), len(sizes))):
        sentences += [f"{n - drawn} of {n} {name} are left out, the smallest."] * (drawn < n)
    width = max(grid.right + 12, _LEAST)
    words, height = _words(sentences, [], grid.bottom + 10, width)
    title = f"Which of {structure.n_observed} observations each of {len(atoms)} atoms of latents acts on"
    return svg.document(width, grid.bottom + 10 + height, title, content + words)


def _weight(structure: Structure, atom: LatentSet) -> int:
    return int(structure.weights[min(atom.indices)])


def _acting(structure: Structure, atom: LatentSet) -> str:
    return svg.counted(_weight(structure, atom), "observation")


def _matrix(rows: Sequence[str], atoms: Sequence[LatentSet]) -> Grid:
    """The dots' grid, with room for bars above and to the left, in the middle of a drawing of the least width."""
    columns = [svg.short_names(atom.names) for atom in atoms]
    wide = min(34.0, max(20.0, 300 / len(columns)))
    tall = min(22.0, max(16.0, 420 / len(rows)))
    flat = svg.labels_fit(columns, wide, min(12, 0.7 * wide))
    depth = 24 if flat else svg.label_room(columns, min(12, 0.7 * wide)) + 6
    left = svg.label_room(rows, min(12, 0.7 * tall)) + _BAR + 28
    middle = (_LEAST - 12 + left - wide * len(columns)) / 2
    return Grid(rows, columns, max(left, middle), _foot(atoms) + depth, wide, tall)


def _foot(atoms: Sequence[LatentSet]) -> float:
    """Where the atoms' bars stand, the tallest just below its number at the top."""
    return 20 + min(_BAR, 14.0 * max(map(len, atoms)))


def _ground(grid: Grid, member: np.ndarray) -> str:
    """Every other row shaded and a faint dot in each empty cell."""
    box = {"x": _start(grid) - 6, "width": grid.right - _start(grid) + 12, "height": grid.tall, "rx": 3}
    rows = [element("rect", **box, y=grid.top + i * grid.tall, fill=svg.TILE) for i in range(0, len(grid.rows), 2)]
    x, y = np.array([grid.center(i, j) for i, j in np.argwhere(~member).tolist()]).reshape(-1, 2).T
    pen = {"stroke": svg.LINE, "stroke_width": 0.42 * min(grid.wide, grid.tall), "stroke_linecap": "round"}
    return "".join(rows) + (element("path", class_="empty", d=svg.specks(x, y), **pen) if len(x) else "")


def _start(grid: Grid) -> float:
    """Where the longest bar of a row may start, its number before it."""
    return grid.left - svg.label_room(grid.rows, min(12, 0.7 * grid.tall)) - _BAR - 20


def _column(grid: Grid, j: int, member: np.ndarray, names: str) -> str:
    """The filled dots of one atom on a line from the first to the last."""
    rows = np.flatnonzero(member).tolist()
    if not rows:
        return ""
    (x, first), (_, last) = grid.center(rows[0], j), grid.center(rows[-1], j)
    drawn = element("line", x1=x, x2=x, y1=first, y2=last, stroke=svg.ACCENT, stroke_width=2, stroke_opacity=0.45)
    look = {"class_": "member", "r": 0.3 * min(grid.wide, grid.tall), "fill": svg.ACCENT}
    for i in rows:
        told = svg.hint(f"{grid.rows[i]} depends on {names}")
        drawn += element("circle", told, cx=x, cy=grid.center(i, j)[1], **look)
    return drawn


def _atom_bars(grid: Grid, atoms: Sequence[LatentSet], structure: Structure) -> str:
    """Above the columns, how many latents each atom has."""
    foot = _foot(atoms)
    drawn = [text(grid.left - 4, foot - 1, "latents per atom", size=11, text_anchor="end")]
    for j, atom in enumerate(atoms):
        x, tall = grid.center(0, j)[0], (foot - 20) * len(atom) / max(map(len, atoms))
        told = f"{svg.listed(atom.names)}: {svg.counted(len(atom), 'latent')}, {_acting(structure, atom)}"
        box = {"x": x - 0.3 * grid.wide, "y": foot - tall, "width": 0.6 * grid.wide, "height": tall, "rx": 2}
        drawn.append(element("rect", svg.hint(told), class_="atom", **box, fill=svg.ACCENT))
        drawn.append(text(x, foot - tall - 5, str(len(atom)), size=11, text_anchor="middle"))
    return "".join(drawn)


def _row_bars(grid: Grid, sizes: Sequence[int]) -> str:
    """Left of the rows' names, how many latents each observation depends on."""
    right, size = _start(grid) + 15 + _BAR, min(11, 0.68 * grid.tall)
    drawn = [text(right, grid.top - 7, "latents", size=11, text_anchor="end")]
    for i, n in enumerate(sizes):
        y, long = grid.center(i, 0)[1], _BAR * n / max(*sizes, 1)
        told = svg.hint(f"{grid.rows[i]}: {svg.counted(n, 'latent')}")
        box = {"x": right - long, "y": y - 0.28 * grid.tall, "width": long, "height": 0.56 * grid.tall, "rx": 2}
        drawn.append(element("rect", told, class_="observation", **box, fill=svg.HEAT))
        drawn.append(text(right - long - 3, y + 0.35 * size, str(n), size=size, text_anchor="end"))
    return "".join(drawn)
