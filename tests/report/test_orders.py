"""The order of the atoms is drawn as it is: covers, layers, verdicts and counts agree with brute force."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations, product
from xml.etree import ElementTree

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.report import svg
from noumena.report.hasse import hasse, upset
from noumena.structure import Structure
from noumena.worlds import family

HOSTILE = "<script>alert(1)</script>\"&'\x00"
SVG = "{http://www.w3.org/2000/svg}"
KINDS = ("identified", "not identified", "open")


def random_structure(rng: np.random.Generator, d_x: int, d_z: int, density: float = 0.4) -> Structure:
    while True:
        support = rng.random((d_x, d_z)) < density
        if support.any(axis=0).all():
            return Structure(support)


def structures() -> Iterator[Structure]:
    rng = np.random.default_rng(0)
    for _ in range(150):
        yield random_structure(rng, int(rng.integers(1, 7)), int(rng.integers(1, 13)), rng.uniform(0.2, 0.8))


def columns(structure: Structure) -> dict[str, frozenset[int]]:
    """The slow reference: names with equal columns, joined, and their column."""
    found: dict[frozenset[int], list[str]] = {}
    for j, name in enumerate(structure.latent):
        found.setdefault(frozenset(np.flatnonzero(structure.dense[:, j]).tolist()), []).append(name)
    return {", ".join(names): column for column, names in found.items()}


def slow_covers(structure: Structure) -> set[tuple[str, str]]:
    atoms = columns(structure)
    below = {(a, b) for a, b in product(atoms, atoms) if atoms[a] < atoms[b]}
    return {(a, b) for a, b in below if not any((a, c) in below and (c, b) in below for c in atoms)}


def slow_level(column: frozenset[int], every: list[frozenset[int]]) -> int:
    return max((1 + slow_level(other, every) for other in every if other < column), default=0)


# ---- reading a drawing -------------------------------------------------------------------------------------


def parse(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def by_class(drawing: str, kind: str) -> list[ElementTree.Element]:
    return [node for node in parse(drawing).iter() if node.get("class") == kind]


def words(drawing: str) -> list[str]:
    return [node.text or "" for node in parse(drawing).iter(f"{SVG}text")]


def size(drawing: str) -> tuple[float, float]:
    return tuple(map(float, parse(drawing).get("viewBox").split()[2:]))


def caption(drawing: str) -> str:
    return " ".join(words(drawing))


def told(node: ElementTree.Element) -> str:
    return node.find(f"{SVG}title").text or ""


def boxes(drawing: str) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of every pill, by the names in it."""
    found = {}
    for node in by_class(drawing, "nm-atom"):
        x, y = map(float, re.match(r"translate\((\S+) (\S+)\)", node.get("transform")).groups())
        pill = node.find(f"{SVG}rect")
        wide, tall = float(pill.get("width")), float(pill.get("height"))
        if "rotate(-90)" in node.get("transform"):
            wide, tall = tall, wide
        found[told(node).split(":")[0]] = (x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2)
    return found


def edges(drawing: str) -> dict[tuple[str, str], str]:
    """The path of every line, by the names at its lower and its upper end."""
    found = {}
    for node in by_class(drawing, "nm-edge"):
        upper, lower = re.match(r"(.*) acts wherever (.*) acts", told(node)).groups()
        assert (lower, upper) not in found
        found[lower, upper] = node.get("d")
    return found


def hostile() -> dict[str, str]:
    structure = Structure([[1, 1], [0, 1]], observed=[HOSTILE, "other"], latent=[HOSTILE, "other"])
    return {"hasse": hasse(structure, verdicts=["open", "identified"]), "upset": upset(structure)}


@pytest.mark.parametrize("name", sorted(hostile()))
def test_every_drawing_is_an_escaped_image_that_follows_the_theme(name: str):
    root = parse(hostile()[name])
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (node.text or "") for node in root.iter())
    colors = {node.get(key) for node in root.iter() for key in ("fill", "stroke")} - {None, "none"}
    assert colors
    assert all(color.startswith("var(--") for color in colors)


@pytest.mark.parametrize("draw", [hasse, upset])
def test_the_same_structure_gives_the_same_drawing(draw: Callable):
    support = random_structure(np.random.default_rng(3), 6, 20).dense
    assert draw(Structure(support)) == draw(Structure(support.copy()))


# ---- the order ---------------------------------------------------------------------------------------------


def test_the_drawn_lines_are_the_transitive_reduction_by_brute_force():
    drawn = 0
    for structure in structures():
        lines = set(edges(hasse(structure)))
        assert lines == slow_covers(structure)
        drawn += len(lines)
    assert drawn > 400


def test_layers_hold_equal_levels_and_lines_go_from_the_top_of_the_lower_to_the_bottom_of_the_upper():
    for structure in structures():
        drawing = hasse(structure)
        place, atoms = boxes(drawing), columns(structure)
        heights: dict[int, set[float]] = {}
        for names, column in atoms.items():
            _, top, _, bottom = place[names]
            heights.setdefault(slow_level(column, list(atoms.values())), set()).add(round(top + bottom, 1))
        middles = [height for level in sorted(heights, reverse=True) for height in heights[level]]
        assert len(middles) == len(heights)
        assert middles == sorted(set(middles))
        for (lower, upper), path in edges(drawing).items():
            numbers = list(map(float, re.findall(r"-?[\d.]+", path)))
            low, high = place[lower], place[upper]
            assert numbers[:2] == pytest.approx([(low[0] + low[2]) / 2, low[1]], abs=0.02)
            assert numbers[-2:] == pytest.approx([(high[0] + high[2]) / 2, high[3]], abs=0.02)


def sprawling(seed: int) -> Structure:
    return random_structure(np.random.default_rng(seed), 10, 36, density=0.3)


@pytest.mark.parametrize("verdicts", [None, "open"])
@pytest.mark.parametrize("seed", range(6))
def test_atoms_stand_apart_and_inside_the_drawing(seed: int, verdicts: str | None):
    for structure in (sprawling(seed), random_structure(np.random.default_rng(seed), 6, 9)):
        kinds = None if verdicts is None else [verdicts] * structure.n_latents
        drawing = hasse(structure, verdicts=kinds)
        width, height = size(drawing)
        place = list(boxes(drawing).values())
        assert len(place) == len(structure.atoms)
        assert all(min(box) >= 0 and box[2] <= width and box[3] <= height for box in place)
        for a, b in combinations(place, 2):
            assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]


@pytest.mark.parametrize("seed", range(6))
def test_a_line_that_passes_a_layer_keeps_clear_of_its_atoms(seed: int):
    drawing = hasse(sprawling(seed))
    passed = 0
    for path in edges(drawing).values():
        for x, enters, leaves in re.findall(r"(-?[\d.]+) (-?[\d.]+)V(-?[\d.]+)", path):
            for left, top, right, bottom in boxes(drawing).values():
                if float(leaves) - 1e-6 <= top and bottom <= float(enters) + 1e-6:
                    assert not left <= float(x) <= right
                    passed += 1
    assert passed > 20


def test_lines_that_need_not_cross_do_not():
    """Four pairs, the upper ones in the opposite order of the lower ones."""
    support = np.zeros((8, 8), dtype=bool)
    for k in range(4):
        support[k, k] = support[k, 7 - k] = support[4 + k, 7 - k] = True
    place = boxes(hasse(Structure(support)))
    lower = sorted(range(4), key=lambda k: place[f"z{k + 1}"][0])
    upper = sorted(range(4), key=lambda k: place[f"z{8 - k}"][0])
    assert lower == upper


def test_atoms_comparable_to_no_other_stand_at_the_right_of_the_lowest_row():
    for structure in structures():
        place, tied = boxes(hasse(structure)), {name for pair in slow_covers(structure) for name in pair}
        lowest = max(box[3] for box in place.values())
        row = sorted((name for name in place if place[name][3] == lowest), key=lambda name: place[name][0])
        assert row == sorted(row, key=lambda name: name not in tied)
        assert set(place) - tied <= set(row)


# ---- what an atom says -------------------------------------------------------------------------------------


def test_an_atom_tells_its_observations_its_closure_and_its_verdict():
    names = ["age", "mood", "fatigue", "temperature of the sea"]
    structure = Structure([[1, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]], latent=names)
    assert {told(node) for node in by_class(hasse(structure), "nm-atom")} == {
        "age, mood: 1 observation; closure age, mood, fatigue",
        "fatigue: 2 observations; closure fatigue",
        "temperature of the sea: 1 observation; closure temperature of the sea",
    }
    judged = hasse(structure, verdicts=["open", "open", "identified", "not identified"])
    assert "fatigue: 2 observations; closure fatigue; identified" in {told(n) for n in by_class(judged, "nm-atom")}
    assert {"age, mood", "fatigue", "temperature o…"} <= set(words(judged))


@pytest.mark.parametrize("verdicts", list(product(KINDS, KINDS)))
def test_an_atom_has_the_worst_verdict_of_its_latents(verdicts: tuple[str, str]):
    drawing = hasse(Structure([[1, 1]]), verdicts=verdicts)
    (atom,) = by_class(drawing, "nm-atom")
    kind = next(kind for kind in ("not identified", "open", "identified") if kind in verdicts)
    colors = dict(zip(KINDS, (svg.GOOD, svg.BAD, svg.OPEN), strict=True))
    assert atom.find(f"{SVG}rect").get("stroke") == colors[kind]
    assert next(atom.iter(f"{SVG}circle")).get("fill") == colors[kind]
    assert told(atom).endswith(f"; {kind}")
    assert [word for word in words(drawing) if word in KINDS] == [kind]


def test_verdicts_have_signs_as_well_as_colours_and_without_them_there_are_none():
    drawing = hasse(Structure(np.eye(3)), verdicts=KINDS)
    signs = [ElementTree.tostring(node, "unicode") for node in by_class(drawing, "nm-atom")]
    assert [svg.CHECK in sign for sign in signs] == [True, False, False]
    assert [svg.CROSS in sign for sign in signs] == [False, True, False]
    assert [">?<" in sign for sign in signs] == [False, False, True]
    plain = hasse(Structure(np.eye(3)))
    assert "<circle" not in plain
    assert {node.find(f"{SVG}rect").get("stroke") for node in by_class(plain, "nm-atom")} == {svg.ACCENT}


def test_crowded_layers_turn_their_atoms_upright():
    few, many = hasse(Structure(np.eye(6))), hasse(Structure(np.eye(30)))
    assert "rotate(-90)" not in few
    assert many.count("rotate(-90)") == 30
    assert size(many)[0] < 30 * 34


# ---- antichains and what is left out -----------------------------------------------------------------------


@pytest.mark.parametrize("structure", [family("banded", 6), family("lack-one", 5), Structure(np.eye(2))])
def test_an_antichain_is_one_row_and_says_so(structure: Structure):
    drawing = hasse(structure)
    assert "An antichain: no two atoms are comparable" in caption(drawing)
    assert not edges(drawing)
    assert len({box[1] for box in boxes(drawing).values()}) == 1


def test_a_chain_and_a_single_atom_are_no_antichain():
    drawing = hasse(family("dense", 7))
    assert "One atom: every latent acts on the same observations." in caption(drawing)
    assert list(boxes(drawing)) == [", ".join(f"z{k}" for k in range(1, 8))]
    drawing = hasse(family("triangular", 5))
    assert "antichain" not in caption(drawing)
    assert "A line upwards: the upper acts wherever the lower acts." in caption(drawing)
    assert set(edges(drawing)) == {(f"z{k + 1}", f"z{k}") for k in range(1, 5)}


def test_above_the_most_only_comparable_atoms_are_drawn_and_the_rest_counted():
    support = np.eye(7)
    support[:3, :3] = np.tri(3)
    assert len(boxes(hasse(Structure(support), most=7))) == 7
    assert "left out" not in hasse(Structure(support), most=7)
    drawing = hasse(Structure(support), most=6)
    assert set(boxes(drawing)) == {"z1", "z2", "z3"}
    assert "4 of 7 atoms are left out: 4 comparable to no other." in caption(drawing)


def test_the_most_related_are_kept_and_joined_across_what_is_left_out():
    """``z1 ⊂ z2 ⊂ z3``, ``z1 ⊂ z4``, ``z5 ⊂ z3``, and ``z6`` alone: z1 and z3 have most relations."""
    rows = [{0, 1, 2, 3}, {1, 2}, {2, 4}, {2}, {3}, {5}]
    structure = Structure([[j in row for j in range(6)] for row in rows])
    drawing = hasse(structure, most=2)
    assert set(edges(drawing)) == {("z1", "z3")}
    assert "4 of 6 atoms are left out: 1 comparable to no other, 3 with the fewest relations." in caption(drawing)


def test_a_long_antichain_is_cut_and_counted():
    drawing = hasse(Structure(np.eye(50)))
    assert list(boxes(drawing)) == [f"z{k}" for k in range(1, 41)]
    assert "of another. 10 of 50 atoms are left out: 10 comparable to no other." in caption(drawing)


# ---- UpSet -------------------------------------------------------------------------------------------------


def middle(box: ElementTree.Element, side: str, length: str) -> float:
    return float(box.get(side)) + float(box.get(length)) / 2


def dots(drawing: str) -> set[tuple[str, str]]:
    """Every filled dot by the observation whose bar is at its height and the atom whose bar is above it."""
    atoms = {round(middle(bar, "x", "width"), 1): told(bar).split(":")[0] for bar in by_class(drawing, "atom")}
    rows = {round(middle(bar, "y", "height"), 1): told(bar).split(":")[0] for bar in by_class(drawing, "observation")}
    found = set()
    for dot in by_class(drawing, "member"):
        pair = rows[round(float(dot.get("cy")), 1)], atoms[round(float(dot.get("cx")), 1)]
        assert told(dot) == f"{pair[0]} depends on {pair[1]}"
        found.add(pair)
    assert len(found) == len(by_class(drawing, "member"))
    return found


def sized() -> list[Structure]:
    rng = np.random.default_rng(1)
    return [random_structure(rng, *shape, density=0.3) for shape in ((20, 5), (50, 20), (3, 12), (1, 4), (4, 1))]


@pytest.mark.parametrize("structure", [*sized(), family("dense", 4), family("banded", 5)], ids=repr)
def test_the_dots_are_the_structure(structure: Structure):
    drawing = upset(structure, most=50)
    atoms = columns(structure)
    expected = {(structure.observed[i], names) for names, column in atoms.items() for i in column}
    assert dots(drawing) == expected
    empty = "".join(node.get("d") for node in by_class(drawing, "empty")).count("h0")
    assert empty + len(expected) == structure.n_observed * len(atoms)


@pytest.mark.parametrize("structure", sized(), ids=repr)
def test_bars_count_the_latents_of_atoms_and_of_observations(structure: Structure):
    drawing = upset(structure, most=50)
    atoms, rows = by_class(drawing, "atom"), by_class(drawing, "observation")
    numbers = [int(re.search(r": (\d+) latents?", told(bar)).group(1)) for bar in atoms]
    assert sum(numbers) == structure.n_latents
    tall = np.array([float(bar.get("height")) for bar in atoms])
    assert tall == pytest.approx(np.array(numbers) * min(14, 44 / max(numbers)), abs=0.01)
    wide = np.array([float(bar.get("width")) for bar in rows])
    sizes = structure.dense.sum(axis=1)
    assert wide / wide.max() == pytest.approx(sizes / sizes.max(), abs=0.01)
    printed = [word for word in words(drawing) if word.isdigit()]
    assert printed == [str(n) for n in [*numbers, *sizes]]


def test_atoms_go_by_size_then_by_weight():
    structure = Structure([[1, 1, 0, 0, 1, 0], [1, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 1]])
    bars = [told(bar) for bar in by_class(upset(structure), "atom")]
    two = ["z2, z5: 2 latents, 1 observation", "z3, z4: 2 latents, 1 observation"]
    assert bars == [*two, "z1: 1 latent, 3 observations", "z6: 1 latent, 1 observation"]


def test_the_largest_are_shown_and_the_others_counted():
    support = np.eye(7, 6, dtype=bool)
    support[:2, 4] = support[3, :] = support[5, 0] = True
    drawing = upset(Structure(support), most=4)
    assert [told(bar).split(":")[0] for bar in by_class(drawing, "atom")] == ["z5", "z1", "z2", "z3"]
    assert [told(bar).split(":")[0] for bar in by_class(drawing, "observation")] == ["x1", "x2", "x4", "x6"]
    assert "2 of 6 atoms are left out, the smallest." in caption(drawing)
    assert "3 of 7 observations are left out, the smallest." in caption(drawing)
    pairs = {"x1": ("z1", "z5"), "x2": ("z2", "z5"), "x4": ("z1", "z2", "z3", "z5"), "x6": ("z1",)}
    assert dots(drawing) == {(row, atom) for row, atoms in pairs.items() for atom in atoms}
    assert "left out" not in caption(upset(Structure(support), most=7))


@pytest.mark.parametrize("structure", sized(), ids=repr)
def test_every_name_is_legible_and_inside_the_drawing(structure: Structure):
    drawing = upset(structure, most=50)
    width, height = size(drawing)
    assert width < 560
    labels = [node for node in parse(drawing).iter(f"{SVG}text") if node.text in structure.observed]
    assert [node.text for node in labels] == list(structure.observed)
    assert min(float(node.get("font-size")) for node in labels) >= 9
    assert all(np.diff([float(node.get("y")) for node in labels]) > 10)
    bars = by_class(drawing, "atom") + by_class(drawing, "observation")
    assert min(min(float(bar.get("x")), float(bar.get("y"))) for bar in bars) > 10
    assert max(float(dot.get("cx")) for dot in by_class(drawing, "member")) < width - 10
    assert max(float(node.get("y")) for node in parse(drawing).iter(f"{SVG}text")) < height


# ---- mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda S: hasse(S, verdicts=["open"]), r"There must be one verdict per latent, 2\. Got 1\."),
        (lambda S: hasse(S, verdicts=["open", "maybe"]), "verdict must be one of identified"),
        (lambda S: hasse(S, most=0), "most must be a whole number of at least 1"),
        (lambda S: upset(S, most=0), "most must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(call: Callable, message: str):
    with pytest.raises(InputError, match=message):
        call(Structure(np.eye(2)))
