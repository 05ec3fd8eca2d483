"""A certificate's chapter has its order, atoms, hypotheses, theorems and a competitor where there is one."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import noumena as nm
from noumena import charts
from noumena.guarantees.diversity import clauses
from noumena.guarantees.seen import SEEN
from noumena.report import Chapter, Page, certificates, render
from noumena.report.certificates import certificate_chapter, latents_table, queries_table, verdict_of, witness_figure
from noumena.report.page import PageFigure, PageTable
from noumena.worlds import structured

SHEARED = nm.Structure(
    [[1, 1], [0, 1], [0, 1], [1, 1]], observed=["pulse", "voice", "gait", "sleep"], latent=["age", "mood"]
)
GOOD = nm.Structure(np.array([[1, 0]] * 3 + [[1, 1]] * 2 + [[0, 1]] * 3))
HOSTILE = "<script>alert(1)</script>\"&'"
PUBLISHED = "The condition of Zheng et al. (2026) and what is certified"
TABLES = ["What is pinned down", "Hypotheses and evidence", "Theorems", PUBLISHED]


def title(figure: PageFigure) -> str:
    """A drawing's own title; the drawing is well formed."""
    found = ElementTree.fromstring(figure.svg).find("{http://www.w3.org/2000/svg}title")
    assert found is not None
    return found.text or ""


def figure(chapter: Chapter, start: str) -> PageFigure:
    (found,) = [f for f in chapter.figures if f.caption.startswith(start)]
    return found


def table(chapter: Chapter, caption: str) -> PageTable:
    (found,) = [t for t in chapter.tables if t.caption == caption]
    return found


def column(found: PageTable, name: str) -> list:
    return [row[found.header.index(name)] for row in found.rows]


def page(certificate: nm.Certificate) -> str:
    return render(Page("t", "", chapters=(certificate_chapter(certificate),)))


def rivals(chapter: Chapter) -> list[PageFigure]:
    return [f for f in chapter.figures if 'class="rings"' in f.svg]


@pytest.fixture(scope="module")
def sheared() -> tuple[nm.Certificate, Chapter]:
    certificate = nm.certify(SHEARED)
    return certificate, certificate_chapter(certificate)


# ---- what every chapter has ----------------------------------------------------------------------------------


def test_the_chapter_names_its_subject_and_says_the_verdict_and_what_it_rests_on(
    sheared: tuple[nm.Certificate, Chapter],
) -> None:
    certificate, chapter = sheared
    assert chapter.title == "Certificate of a structure"
    assert chapter.lead == "4 observations of 2 latents."
    assert chapter.details == str(certificate)
    assert chapter.verdict is not None
    assert (chapter.verdict.kind, chapter.verdict.headline) == ("not identified", certificate.headline)
    assert chapter.verdict.sentences[0].startswith("A competitor exists, ẑ = age + s(mood)")
    assert chapter.verdict.sentences[-1].startswith("This rests on: equivalence")
    assert chapter.verdict.sentences[-1].count("; ") == len(certificate.rests_on) - 1


def test_the_verdict_gives_each_reason_once_and_at_most_four() -> None:
    assert len(verdict_of(nm.certify(GOOD)).sentences) == 2  # one reason for both latents, and what it rests on
    nested = nm.certify(nm.Structure(np.tril(np.ones((7, 7)))))
    assert len({nested.verdict(t).reason for t in range(7)}) > 4
    assert len(verdict_of(nested).sentences) == 5


def test_the_order_is_drawn_with_its_verdicts(sheared: tuple[nm.Certificate, Chapter]) -> None:
    drawn = figure(sheared[1], "The order of the latents")
    assert title(drawn) == "Order of 2 atoms of 2 latents by the observations they act on"
    assert drawn.svg.count('class="nm-edge"') == 1
    assert "mood acts wherever age acts" in drawn.svg
    assert "closure age, mood; not identified" in drawn.svg
    assert "closure mood; open" in drawn.svg


def test_the_atoms_are_drawn(sheared: tuple[nm.Certificate, Chapter]) -> None:
    drawn = figure(sheared[1], "The atoms")
    assert title(drawn) == "Which of 4 observations each of 2 atoms of latents acts on"
    assert drawn.svg.count('class="member"') == 6


def test_the_structure_is_drawn_as_a_matrix_and_as_a_graph(sheared: tuple[nm.Certificate, Chapter]) -> None:
    chapter = sheared[1]
    assert "which observation depends on which latent" in chapter.figures[0].caption
    assert figure(chapter, "The same as a graph").svg.count('class="nm-edge"') == 6
    assert [title(f) for f in chapter.figures if not title(f)] == []


def test_every_table_is_there_in_order(sheared: tuple[nm.Certificate, Chapter]) -> None:
    assert [t.caption for t in sheared[1].tables] == TABLES


def test_hypotheses_and_theorems_are_listed_in_full() -> None:
    for certificate in (nm.certify(SHEARED, independent=True), nm.certify(structured(SHEARED, random_state=1))):
        chapter = certificate_chapter(certificate)
        hypotheses, theorems = table(chapter, TABLES[1]), table(chapter, TABLES[2])
        assert hypotheses.rows == tuple((h.name, h.answer, h.evidence) for h in certificate.hypotheses)
        assert theorems.rows == tuple((t.name, t.source, t.answer, t.sentence) for t in certificate.theorems)
        assert len(theorems.rows) == 3 + certificate.rivals.independent


def test_each_latent_has_its_verdict_its_closure_and_its_observations(sheared: tuple[nm.Certificate, Chapter]) -> None:
    found = table(sheared[1], TABLES[0])
    assert column(found, "latent") == ["age", "mood"]
    assert column(found, "verdict") == ["not identified", "open"]
    assert column(found, "closure") == ["age, mood", "mood"]
    assert column(found, "observations") == [2, 4]
    assert column(latents_table(nm.certify(GOOD)), "known up to") == ["element-wise"] * 2


def test_what_a_latent_is_known_up_to_is_said_in_the_structures_own_names(
    sheared: tuple[nm.Certificate, Chapter],
) -> None:
    for known in column(table(sheared[1], TABLES[0]), "known up to"):
        assert "age" in known
        assert "z1" not in known


def test_the_papers_clauses_stand_beside_the_certificate() -> None:
    S = nm.Structure([[1, 1, 0], [0, 1, 1], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    met = clauses(S)
    found = table(certificate_chapter(nm.certify(S)), TABLES[3])
    said = [{int(k) for k in cell.split(", ") if k.isdigit()} for cell in column(found, "clauses met")]
    assert said == [{k + 1 for k in range(3) if met[t, k]} for t in range(3)]
    assert column(found, "Theorem 3's condition") == ["yes" if met[t].any() else "no" for t in range(3)]
    expected = ["yes" if met[t, 2] else f"up to {', '.join(S.closure(t).names)}" for t in range(3)]
    assert column(found, "proved under Assumption 1") == expected
    assert column(found, "certified") == [nm.certify(S).verdict(t).answer for t in range(3)]
    twins = table(certificate_chapter(nm.certify(nm.Structure(np.ones((3, 2))))), TABLES[3])
    assert column(twins, "clauses met") == ["none", "none"]


def test_queries_come_first_with_their_answers() -> None:
    certificate = nm.certify(SHEARED)
    asked = {text: certificate.query(text) for text in ("pulse", "pulse - voice", "voice - voice")}
    chapter = certificate_chapter(certificate, queries=asked)
    assert [t.caption for t in chapter.tables] == ["Queries", *TABLES]
    found = queries_table(asked)
    assert chapter.tables[0] == found
    assert column(found, "query") == list(asked)
    assert column(found, "latents") == ["age, mood", "age", "none"]
    assert column(found, "answer") == ["block-identified", "not identified", "empty"]
    assert column(found, "why") == [a.reason for a in asked.values()]
    assert [t.caption for t in certificate_chapter(certificate, queries={}).tables] == TABLES


def test_entries_near_the_threshold_have_a_table_and_clear_ones_none() -> None:
    matrix = torch.tensor([[1.0, 0.0]] * 3 + [[1.0, 0.11]] + [[0.0, 1.0]] * 3, dtype=torch.float64)
    points = torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    chapter = certificate_chapter(nm.certify(lambda z: z @ matrix.T, at=points, threshold=0.1))
    assert [t.caption for t in chapter.tables] == [*TABLES, "Entries near the threshold"]
    (row,) = table(chapter, "Entries near the threshold").rows
    assert row[0] == "x4–z2"
    assert row[2:] == ("yes", 2, 3, "no")


def test_a_latent_that_would_touch_nothing_has_a_dash_for_its_gap() -> None:
    matrix = torch.tensor([[1.0, 0.0]] * 3 + [[1.0, 0.11]], dtype=torch.float64)
    points = torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    chapter = certificate_chapter(nm.certify(lambda z: z @ matrix.T, at=points, threshold=0.1))
    assert table(chapter, "Entries near the threshold").rows[0][4:] == ("–", "yes")


def test_hostile_names_stay_text() -> None:
    named = nm.Structure(SHEARED.dense, observed=[HOSTILE, "b", "c", "d"], latent=[HOSTILE, "mood"])
    html = page(nm.certify(named))
    assert re.findall("<script[^>]*>", html) == ['<script type="application/json">', "<script>"]
    assert html.count("</script") == 2
    assert "<script>alert" not in html
    assert "&lt;script" in html


# ---- a competitor one can see --------------------------------------------------------------------------------


def test_a_world_with_a_shear_shows_two_latent_spaces_and_one_data_cloud() -> None:
    certificate = nm.certify(structured(SHEARED, random_state=1))
    (drawn,) = rivals(certificate_chapter(certificate))
    assert drawn.svg.count('class="rings"') == drawn.svg.count('class="dots"') == 2 * charts.clouds.SHADES
    assert drawn.caption.startswith("A competitor one can see (shear): ẑ = age + s(mood) in place of age")
    assert "Verified: observations differ by" in drawn.caption
    assert "drawn on a world made" not in drawn.caption
    assert title(drawn) == "Two models with different latents age, mood and the same data"


def test_the_two_models_differ_in_their_latents() -> None:
    drawn = witness_figure(nm.certify(structured(SHEARED, random_state=1)))
    assert drawn is not None
    clouds = [
        np.concatenate([line.get_xydata() for line in ax.lines if line.get_gid() == kind])
        for ax, kinds in zip(drawn.drawing.axes, (("rings",), ("dots",), ("rings", "dots")), strict=True)
        for kind in kinds
    ]
    assert [len(points) for points in clouds] == [SEEN] * 4
    one, other, data, again = clouds
    assert one[:, 1] == pytest.approx(other[:, 1], abs=1e-5)  # the latent that is added stays
    assert np.ptp(one[:, 0] - other[:, 0]) > 0.1 * np.ptp(one[:, 0])
    assert (data == again).all()


def test_a_bare_small_structure_is_shown_on_a_world_made_with_it(sheared: tuple[nm.Certificate, Chapter]) -> None:
    (drawn,) = rivals(sheared[1])
    assert drawn.caption.startswith("A competitor one can see (shear)")
    assert drawn.caption.endswith("It is drawn on a world made with this structure.")


def test_with_independence_the_competitor_keeps_it() -> None:
    (drawn,) = rivals(certificate_chapter(nm.certify(nm.Structure(np.ones((3, 2))), independent=True)))
    assert drawn.caption.startswith("A competitor one can see (rotation)")
    assert "dependence between latents" in drawn.caption


@pytest.mark.parametrize(
    "subject", [lambda: GOOD, lambda: structured(GOOD, random_state=1)], ids=["structure", "world"]
)
def test_where_all_is_identified_there_is_no_competitor_to_see(subject: Callable[[], object]) -> None:
    certificate = nm.certify(subject())
    assert certificate.answer == "identified"
    assert rivals(certificate_chapter(certificate)) == []


@pytest.mark.parametrize(
    "support",
    [[[1, 1, 1], [1, 1, 1]], [[1, 1], [0, 1], [0, 0]]],
    ids=["fewer observations than latents", "an observation of nothing"],
)
def test_a_structure_no_world_can_have_is_shown_without_one(support: list[list[int]]) -> None:
    certificate = nm.certify(nm.Structure(support))
    assert certificate.answer == "not identified"
    assert rivals(certificate_chapter(certificate)) == []


def test_a_bare_structure_too_large_for_an_example_is_shown_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noumena.worlds.example.MOST_EXAMPLE", 3)
    assert rivals(certificate_chapter(nm.certify(SHEARED))) == []
    monkeypatch.setattr("noumena.worlds.example.MOST_EXAMPLE", 4)
    assert len(rivals(certificate_chapter(nm.certify(SHEARED)))) == 1


def test_a_competitor_that_does_not_verify_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = nm.certify(structured(SHEARED, random_state=1))
    monkeypatch.setattr(nm.guarantees.Verification, "holds", property(lambda self: False))
    assert witness_figure(certificate) is None


def test_a_fit_that_is_the_data_itself_has_no_other_latents_to_show() -> None:
    points = torch.randn(64, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    certificate = nm.certify(lambda z: 2 * z, at=points)
    assert certificate.answer == "open"
    assert rivals(certificate_chapter(certificate)) == []


# ---- large structures ----------------------------------------------------------------------------------------


def large(seed: int = 0) -> nm.Structure:
    rng = np.random.default_rng(seed)
    support = rng.random((900, 300)) < 0.02
    support[rng.integers(0, 900, size=300), np.arange(300)] = True
    return nm.Structure(support)


def test_three_hundred_latents_are_drawn_and_listed_in_part() -> None:
    certificate = nm.certify(large())
    chapter = certificate_chapter(certificate)
    assert not any("graph" in f.caption or "matrix" in f.caption for f in chapter.figures)
    assert len(figure(chapter, "The order of the latents").svg) + len(figure(chapter, "The atoms").svg) < 200_000
    assert len(table(chapter, TABLES[0]).rows) == len(table(chapter, TABLES[3]).rows) == certificates.MOST_ROWS
    assert len(page(certificate)) < 400_000


def test_of_many_identified_latents_the_first_are_listed() -> None:
    identified = nm.certify(nm.Structure(np.kron(np.eye(80), np.ones((3, 1)))))
    assert identified.answer == "identified"
    assert certificates.shown(identified) == list(range(certificates.MOST_ROWS))


def test_sixty_rows_are_drawn_entry_by_entry_and_sixty_one_are_not() -> None:
    sixty = np.kron(np.eye(20), np.ones((3, 1)))
    assert len(certificate_chapter(nm.certify(nm.Structure(sixty))).figures) == 4
    assert len(certificate_chapter(nm.certify(nm.Structure(np.r_[sixty, sixty[:1]]))).figures) == 2


def test_a_page_does_not_grow_with_the_closures_of_nested_latents() -> None:
    certificates = [nm.certify(nm.Structure(np.triu(np.ones((n, n))))) for n in (64, 128)]
    smaller, larger = (len(page(certificate)) for certificate in certificates)
    assert larger < 1.15 * smaller
    chapter = certificate_chapter(certificates[1])
    assert max(len(str(cell)) for t in chapter.tables for row in t.rows for cell in row) < 400
    assert max(map(len, chapter.details.splitlines())) < 600


def test_the_observations_of_a_wide_structure_are_counted_by_their_latents() -> None:
    rows = [[1, 1, 1]] * 40 + [[0, 1, 1]] * 30 + [[0, 0, 1]] * 2 + [[0, 0, 0]]
    S = nm.Structure(np.array(rows)[np.random.default_rng(0).permutation(73)])
    found = table(certificate_chapter(nm.certify(S)), "Which latents observations depend on")
    assert column(found, "observations") == [40, 30, 2, 1]
    assert column(found, "latents") == ["all", "all but z1", "z3", "none"]
    for (rows, _, named), kind in zip(found.rows, sorted(S.kinds, key=lambda k: -len(k)), strict=True):
        assert rows == len(kind)
        assert named == ", ".join(S.observed[i] for i in kind[:3]) + (", …" if len(kind) > 3 else "")
    assert found.note.startswith("Observations with the same latents count as one here: 73 have 4 sets.")


def test_of_many_sets_of_latents_the_most_frequent_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "MOST_KINDS", 2)
    S = nm.Structure(np.repeat(np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1]]), [10, 40, 5, 20], axis=0))
    found = table(certificate_chapter(nm.certify(S)), "Which latents observations depend on")
    assert column(found, "observations") == [40, 20]
    assert found.note.endswith("2 further sets have 15 observations together.")


def test_what_was_not_searched_is_said_in_the_verdict_and_no_competitor_is_built_of_a_wide_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate = nm.certify(structured(SHEARED, random_state=0))
    assert witness_figure(certificate) is not None
    assert not any("Not searched" in sentence for sentence in verdict_of(certificate).sentences)
    monkeypatch.setattr("noumena.guarantees.seen.MOST_SEEN", 7)
    assert witness_figure(certificate) is None
    monkeypatch.setattr("noumena.guarantees.competitors.TRIED", 8)
    wide = nm.certify(structured(SHEARED, random_state=0))
    assert verdict_of(wide).sentences[-1] == (
        "Not searched: observations in the place of a latent, beyond the first 1 of each latent: each costs decodings "
        "of all 4."
    )
