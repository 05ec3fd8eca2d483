"""The album's page: sliders that run from a file, escaped and self-contained, and no larger than a page may be."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from noumena.checks import InputError
from noumena.report import Chapter, Page, albums, png, render
from noumena.report.albums import album, album_chapter, save_album
from noumena.report.page import Slider, Sliders

HOSTILE = "<script>alert(1)</script>\"&'"
DOT = png.data_uri(np.zeros((2, 6), dtype=np.uint8))


class Tags(HTMLParser):
    """Every start tag with its attributes, and all text."""

    def __init__(self, html: str):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data

    def all(self, tag: str, **wanted: str) -> list[dict]:
        return [a for name, a in self.found if name == tag and wanted.items() <= a.items()]


def page_of(*sliders: Slider) -> str:
    return render(Page("t", "", None, (Chapter("c", "", figures=(Sliders(sliders, "caption"),)),)))


def a_slider(words: str = "z1") -> Slider:
    return Slider(words, DOT, ("−1.00", "0.00", "1.00"), (2, 2), 1, words)


class Painter:
    """A model with points, whose decoder is a matrix from latents to the pixels of a picture."""

    best_ = 0

    def __init__(self, shape: tuple[int, int, int], n_latents: int, *, rough: bool = False, points: int = 40):
        generator = np.random.default_rng(0)
        channels, height, width = shape
        noise = generator.normal(size=(n_latents, channels, height, width)) * 0.1
        y, x = np.mgrid[:height, :width] / height
        waves = [np.cos(np.pi * (j % 5) * x) * np.cos(np.pi * (j // 5) * y) for j in range(n_latents)]
        smooth = 0.1 * np.stack(waves)[:, None] * np.ones((1, channels, 1, 1))
        self.matrix = (noise if rough else smooth).reshape(n_latents, -1).T
        self.points_ = generator.normal(size=(1, points, n_latents))

    def inverse_transform(self, z):
        return 0.5 + np.asarray(z) @ self.matrix.T

    @property
    def decoder_(self):
        line = nn.Linear(self.matrix.shape[1], len(self.matrix))
        with torch.no_grad():
            line.weight.copy_(torch.as_tensor(self.matrix))
        return line


@pytest.fixture(scope="module")
def shown():
    return album(Painter((3, 8, 8), 4), (3, 8, 8))


def test_a_page_has_a_range_per_slider_beside_its_strip():
    tags = Tags(page_of(a_slider(), a_slider("z2")))
    assert [a["aria-label"] for a in tags.all("input", type="range")] == ["z1", "z2"]
    assert {(a["min"], a["max"], a["value"]) for a in tags.all("input")} == {("0", "2", "1")}
    assert [a["src"] for a in tags.all("img")] == [DOT, DOT]
    assert [a["data-values"] for a in tags.all("div") if "data-values" in a] == ["−1.00 0.00 1.00"] * 2
    assert "caption" in tags.words


def test_without_scripts_there_are_strips_and_no_dead_controls():
    tags = Tags(page_of(a_slider()))
    hidden = [tag for tag, attributes in tags.found if "hidden" in attributes]
    assert hidden == ["div", "output", "input"]


def test_the_only_script_is_the_one_that_the_policy_names():
    html = page_of(a_slider())
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    (policy,) = [a["content"] for a in Tags(html).all("meta") if "http-equiv" in a]
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def test_a_page_without_sliders_has_no_script():
    html = render(Page("t", "", None, (Chapter("c", ""),)))
    assert "<script" not in html
    assert "script-src" not in html


def test_hostile_names_come_out_as_text():
    html = page_of(a_slider(HOSTILE))
    tags = Tags(html)
    assert len(tags.all("script")) == 1
    assert html.count("<script") == 1
    assert [a["aria-label"] for a in tags.all("input")] == [HOSTILE]
    assert tags.words.count(HOSTILE) == 2
    assert all(not name.startswith("on") for _, attributes in tags.found for name in attributes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strip": "https://elsewhere/a.png"}, "inside its address. Got https://"),
        ({"values": ("1",)}, "two frames"),
        ({"first": 2}, "one of 2. Got 2"),
    ],
    ids=["fetched", "one frame", "no such frame"],
)
def test_a_slider_that_cannot_be_shown_is_refused(change: dict, words: str):
    given = {"name": "z1", "strip": DOT, "values": ("0", "1"), "size": (2, 2)} | change
    with pytest.raises(InputError, match=words):
        Slider(**given)


# ---- the album -------------------------------------------------------------------------------------------------


def test_an_album_has_a_slider_for_every_latent_that_moves_the_picture(shown):
    tags = Tags(render(Page("t", "", None, (album_chapter(shown),))))
    assert len(tags.all("input", type="range")) == 4
    assert {a["aria-label"] for a in tags.all("input")} == {"z1", "z2", "z3", "z4"}
    assert "All 4 latents move it." in tags.words
    assert "Decoded from latents of training rows" in tags.words
    assert "is not claimed" in tags.words


def test_sliders_begin_at_the_frame_nearest_to_the_training_row(shown):
    inputs = Tags(render(Page("t", "", None, (album_chapter(shown),)))).all("input")
    for slider, j, values in zip(inputs, shown.strips.latents, shown.strips.values, strict=True):
        nearest = min(range(11), key=lambda k: abs(values[k] - shown.strips.start[j]))
        assert int(slider["value"]) == nearest
    assert len({a["value"] for a in inputs}) > 1


def test_a_dead_latent_is_named_and_has_no_slider():
    model = Painter((1, 8, 8), 3)
    model.matrix[:, 1] = 0
    found = album(model, (1, 8, 8))
    assert found.to_dict()["dead"] == ["z2"]
    tags = Tags(render(Page("t", "", None, (album_chapter(found),))))
    assert "z2" not in {a["aria-label"] for a in tags.all("input")}
    assert "2 of 3 latents move it; z2 is dead" in tags.words


def test_a_model_of_which_nothing_moves_still_has_a_page():
    model = Painter((1, 8, 8), 2)
    model.matrix[:] = 0
    chapter = album_chapter(album(model, (1, 8, 8)))
    assert "No latent moves it" in chapter.lead
    assert len(Tags(render(Page("t", "", None, (chapter,)))).all("input")) == 1


def test_the_album_fetches_nothing(shown):
    html = render(Page("t", "", None, (album_chapter(shown),)))
    assert set(re.findall(r"https?://[^\"'\s)<]+", html)) <= {"http://www.w3.org/2000/svg"}
    addresses = [a.get("src") or a.get("href") for _, a in Tags(html).found if "src" in a or "href" in a]
    assert len(addresses) > 10
    assert all(address.startswith("data:") for address in addresses)


def test_strips_and_swaps_are_what_the_decoder_draws(shown):
    model = Painter((3, 8, 8), 4)
    z = shown.strips.start.copy()
    z[shown.strips.latents[0]] = shown.strips.values[0, 3]
    expected = np.round(255 * np.clip(model.inverse_transform(z[None].astype(np.float32)), 0, 1)).reshape(3, 8, 8)
    np.testing.assert_array_equal(shown.strips.images[0, 3], expected)
    points = model.points_[0].astype(np.float32)
    target = np.round(255 * np.clip(model.inverse_transform(points[8:9]), 0, 1)).reshape(3, 8, 8)
    np.testing.assert_array_equal(shown.swaps.images[1, 0], target)


def test_maps_are_of_a_typical_move_in_the_order_of_the_strips(shown):
    model = Painter((3, 8, 8), 4)
    for k, j in enumerate(shown.strips.latents):
        by_hand = np.sqrt(np.square(model.matrix[:, j].reshape(3, 8, 8)).sum(axis=0)) * model.points_[0, :, j].std()
        np.testing.assert_allclose(shown.maps[k], by_hand, rtol=1e-5)


def test_the_unit_of_light_divides_the_maps():
    in_bytes = Painter((1, 8, 8), 2)
    in_bytes.matrix *= 255
    plain = album(Painter((1, 8, 8), 2), (1, 8, 8))
    np.testing.assert_allclose(album(in_bytes, (1, 8, 8), top=255.0).maps, plain.maps, rtol=1e-5)


def test_files_hold_all_strips_and_all_swaps(shown, tmp_path: Path):
    image = pytest.importorskip("PIL.Image")
    strips, grid = save_album(shown, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["swaps.png", "traversals.png"]
    with image.open(strips) as one, image.open(grid) as other:
        assert one.size == (11 * 10 - 2, 4 * 10 - 2)
        assert other.size == (8 * 10 - 2, 6 * 10 - 2)
        found = np.asarray(one.convert("RGB"))
    np.testing.assert_array_equal(found[10:18, 20:28], np.moveaxis(shown.strips.images[1, 2], 0, -1))


@pytest.mark.parametrize("rough", [False, True], ids=["smooth", "noise"])
def test_twenty_latents_of_64_by_64_are_a_page_of_at_most_three_megabytes(rough: bool):
    found = album(Painter((3, 64, 64), 20, rough=rough, points=16), (3, 64, 64))
    chapter = album_chapter(found)
    html = render(Page("t", "", None, (chapter,)))
    assert len(Tags(html).all("input")) == 20
    assert len(html.encode()) < 3_000_000
    assert ("shown at 32 × 32" in chapter.lead) == rough


def test_too_few_points_are_refused():
    model = SimpleNamespace(points_=np.zeros((1, 1, 2)), best_=0)
    with pytest.raises(InputError, match="points_ must have at least 2 rows"):
        album(model, (1, 8, 8))


def test_many_latents_are_swapped_only_where_they_move_the_picture_most():
    found = album(Painter((1, 8, 8), 12, points=6), (1, 8, 8))
    assert found.swaps.latents == found.strips.latents[: albums.SWAPPED]
    assert found.swaps.images.shape[:2] == (2 + albums.SWAPPED, 3)
    assert "2 latents that move the picture less are left out" in album_chapter(found).figures[1].caption
