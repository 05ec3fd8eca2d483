"""What a page carries to be explored: enough to answer, nothing that breaks out, a word where it is left out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from fractions import Fraction
from html import unescape

import numpy as np
import pytest

import noumena as nm
from noumena.guarantees import queries
from noumena.report import Callout, Chapter, Page, PageTable, explorer, render
from noumena.report.certificates import certificate_chapter
from noumena.report.chapters import model_chapter, training_chapter
from noumena.report.explorer import MOST_ENTRIES, examples, facts
from noumena.report.page import Explorer

GOOD = nm.Structure(np.array([[1, 0]] * 3 + [[1, 1]] * 2 + [[0, 1]] * 3))
SHEARED = nm.Structure([[1, 1], [0, 1], [0, 1]], observed=["pulse", "voice", "gait"], latent=["age", "mood"])
HOSTILE = ["</script><script>alert(1)</script>", "<!--", "]]>&amp;", "\"'`${x}\\", "心\u2028\u2029", "w" * 10_000]
DATA = re.compile(r'<script type="application/json">(.*?)</script>', flags=re.DOTALL)


def html(chapter: Chapter) -> str:
    return render(Page("t", "", chapters=(chapter,)))


def carried(page: str) -> dict:
    (text,) = DATA.findall(page)
    return json.loads(text)


# ---- facts ---------------------------------------------------------------------------------------------------------


def test_the_facts_of_a_small_structure_are_these():
    certificate = nm.certify(SHEARED)
    shear = certificate.competitor("age", "mood")
    assert shear is not None
    found = facts(certificate)
    assert found["observed"] == ["pulse", "voice", "gait"]
    assert found["latent"] == ["age", "mood"]
    assert found["support"] == [[0, 1], [1], [1]]
    assert found["blocks"] == [[0, 1]]
    assert found["carried"] == [[[1, 0]], []]
    assert found["sentences"] == [shear.sentence]
    assert found["verdicts"][0] == ["not identified", certificate.verdict(0).reason, "block-wise {age, mood}"]
    assert found["verdicts"][1] == ["open", certificate.why_open, "block-wise {age, mood}"]
    assert found["why_open"] == certificate.why_open
    assert found["deepest"] == queries.DEEPEST


def test_latents_that_are_proved_apart_carry_no_competitors():
    found = facts(nm.certify(GOOD))
    assert found["blocks"] == [[0], [1]]
    assert found["carried"] == [[], []]
    assert found["sentences"] == []
    assert [verdict[0] for verdict in found["verdicts"]] == ["identified", "identified"]


def test_a_competitor_of_several_latents_is_told_once():
    found = facts(nm.certify(nm.Structure([[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]])))
    assert len(found["sentences"]) == len(set(found["sentences"]))
    assert {k for pairs in found["carried"] for _, k in pairs} == set(range(len(found["sentences"])))


# ---- on the page ---------------------------------------------------------------------------------------------------


def test_the_chapter_of_a_certificate_carries_its_structure():
    certificate = nm.certify(GOOD)
    chapter = certificate_chapter(certificate)
    assert chapter.explorer == explorer.explorer(certificate)
    assert carried(html(chapter)) == facts(certificate)


def test_the_chapter_of_a_model_carries_its_structure_and_its_stability():
    x = nm.worlds.structured(GOOD, random_state=0).sample(200).x
    training = nm.Training(steps=3, batch_size=50)
    model = nm.VAE(n_latents=2, n_models=2, training=training, random_state=0).fit(x)
    certificate = nm.certify(model)
    chapter = model_chapter(model, certificate)
    assert chapter.explorer == explorer.explorer(certificate)
    (stability,) = [t for t in chapter.tables if t.caption.startswith("Stability")]
    assert stability.header == ("", *(f"seed {s}" for s in model.seeds_))
    matrix = np.array([row[1:] for row in stability.rows], dtype=float)
    np.testing.assert_array_equal(matrix, nm.metrics.agreement(model.points_).matrix)
    assert training_chapter(model).tables == chapter.tables[-2:]
    assert training_chapter(model).explorer is None


def test_hostile_names_cannot_leave_the_data():
    structure = nm.Structure(np.eye(6), observed=HOSTILE, latent=[f"z{name}" for name in HOSTILE])
    chapter = Chapter("c", "", explorer=explorer.explorer(nm.certify(structure)))
    page = html(chapter)
    assert carried(page)["observed"] == HOSTILE
    (text,) = DATA.findall(page)
    assert not set("<>&") & set(text)
    assert text.isascii()
    assert page.count("<script") == page.count("</script") == 2


def test_numbers_that_json_does_not_know_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        _ = Explorer({"x": float("nan")}, "").data


def test_the_only_script_that_runs_is_the_one_that_the_policy_names():
    page = html(
        Chapter("c", "", tables=(PageTable("t", ("a",), (("b",),)),), explorer=explorer.explorer(nm.certify(GOOD)))
    )
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    assert f'content="{policy}"' in unescape(page)
    assert "class Explorer" in script
    assert "button.save" in script
    assert ".slider" not in script


@pytest.mark.parametrize(
    ("chapter", "wanted"),
    [
        (Chapter("c", ""), False),
        (Chapter("c", "", explorer=Explorer(None, "left out")), False),
        (Chapter("c", "", tables=(PageTable("t", ("a",), ()),)), True),
        (Chapter("c", "", explorer=Explorer({"latent": []}, "")), True),
    ],
)
def test_a_script_comes_only_with_what_needs_it(chapter: Chapter, wanted: bool):
    page = html(chapter)
    assert ("<script>" in page) == wanted
    assert ("script-src" in page) == wanted


def test_a_structure_too_large_is_left_out_in_words():
    rows = MOST_ENTRIES // 2 + 1
    support = np.zeros((rows, 2), dtype=bool)
    support[:, 0] = True
    support[0, 1] = True
    left = explorer.explorer(nm.certify(nm.Structure(support)))
    assert left.facts is None
    assert left.caption.startswith(
        "The box for queries is left out: this structure has 10,001 observations of 2 latents"
    )
    page = html(Chapter("c", "", explorer=left))
    assert left.caption in page
    assert "application/json" not in page
    kept = explorer.explorer(nm.certify(nm.Structure(support[:-1])))
    assert kept.facts is not None


def test_many_latents_with_few_observations_are_left_out_too():
    support = np.ones((1, 142), dtype=bool)
    assert explorer.explorer(nm.certify(nm.Structure(support))).facts is None
    assert explorer.explorer(nm.certify(nm.Structure(support[:, :20]))).facts is not None


def test_a_structure_with_too_much_to_say_is_left_out_too(monkeypatch: pytest.MonkeyPatch):
    certificate = nm.certify(SHEARED)
    size = len(explorer.explorer(certificate).data)
    monkeypatch.setattr(explorer, "MOST_LETTERS", size)
    assert explorer.explorer(certificate).facts is not None
    monkeypatch.setattr(explorer, "MOST_LETTERS", size - 1)
    left = explorer.explorer(certificate)
    assert left.facts is None
    assert left.caption.startswith(f"The box for queries is left out: its answers need {size:,} letters")


def test_without_scripts_no_dead_control_is_shown():
    page = html(Chapter("c", "", tables=(PageTable("t", ("a",), ()),), explorer=explorer.explorer(nm.certify(GOOD))))
    assert all(
        " hidden" in tag for tag in re.findall(r'<(?:button[^>]*class="save"|div class="(?:ask|parts)")[^>]*>', page)
    )
    assert len(re.findall(r'<(?:button[^>]*class="save"|div class="(?:ask|parts)")[^>]*>', page)) == 3
    assert "<noscript>" in page


# ---- examples ------------------------------------------------------------------------------------------------------


def test_examples_read_and_are_about_observations_that_share_and_differ():
    assert examples(SHEARED) == ("pulse & voice", "pulse - voice", "~pulse")
    structure = nm.Structure([[1, 0, 0], [0, 1, 1], [0, 0, 1]])
    assert examples(structure)[0] == "x2 & x3"
    assert examples(nm.Structure([[1]])) == ("x1 & x1", "x1 - x1", "~x1")


def test_examples_quote_what_must_be_quoted_and_leave_out_what_cannot():
    names = ["it's", 'the "gait"']
    structure = nm.Structure([[1, 1], [0, 1]], observed=names)
    assert examples(structure) == ('"it\'s" & \'the "gait"\'', '"it\'s" - \'the "gait"\'', '~"it\'s"')
    for text in examples(structure):
        queries.parse(text, structure)
    assert examples(nm.Structure([[1, 1], [0, 1]], observed=["w" * 50, "v"])) == ()
    assert examples(nm.Structure([[1, 1], [0, 1]], observed=["'\"", "v"])) == ()


# ---- the rest of the page ------------------------------------------------------------------------------------------


def test_saved_numbers_keep_every_digit_and_words_are_kept_as_they_are():
    table = PageTable("t", ("a", "b", "c"), ((0.123456789, 12345, "1,234"), (Fraction(1, 2), float("nan"), "-")))
    assert table.exact_rows == (("0.123456789", "12345", "1,234"), ("0.5", "nan", "-"))
    page = render(Page("t", "", table))
    assert re.findall(r'data-exact="([^"]*)"', page) == ["0.123456789", "12345", "0.5", "nan"]


@pytest.mark.parametrize(
    ("caption", "name"),
    [("Seeds", "seeds"), ("../../etc/passwd", "etc-passwd"), ("心", "table"), ("a" * 200, "a" * 60)],
)
def test_a_table_is_saved_under_a_plain_name(caption: str, name: str):
    assert PageTable(caption, (), ()).file_name == f"{name}.csv"


def test_the_verdict_is_told_at_the_top():
    verdict = Callout("not identified", "headline")
    one = html(Chapter("c", "", verdict))
    assert re.search(r'<p class="overview">.*not identified.*</p>', one.split("</header>")[0])
    two = render(Page("t", "", chapters=(Chapter("a", "", verdict), Chapter("b", ""))))
    contents = two.split("<nav")[1].split("</nav>")[0]
    assert contents.count("not identified") == 1
    assert 'class="overview"' not in two
