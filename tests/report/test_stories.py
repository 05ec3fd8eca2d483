"""The page of the demo shows what its stories found: matched structures, scores, correlations and pairs."""

from __future__ import annotations

import numpy as np
import pytest

import noumena as nm
from noumena.demo import SETTINGS, Story
from noumena.metrics import mcc
from noumena.report import render
from noumena.report.stories import demo_page, story_chapter
from noumena.worlds import structured


@pytest.fixture(scope="module")
def story() -> Story:
    world = structured(nm.Structure([[1, 0], [1, 1], [0, 1]]), random_state=0)
    sample = world.sample(200)
    model = nm.VAE(n_latents=2, n_models=2, training=nm.Training(steps=2), random_state=0).fit(sample.x)
    each = np.array([mcc(sample.z, z_hat).score for z_hat in model.transform_all(sample.x)])
    names = ("with bias", "without bias", "x itself", "PCA", "linear ICA")
    truth = nm.certify(world)
    return Story(
        SETTINGS[0], world, sample, model, model, truth, truth, 0.5, dict.fromkeys(names, each), structure_f1=0.7
    )


def test_latents_are_shown_in_the_places_of_the_true_ones(story: Story):
    figures = {figure.caption.split(",")[0].split(".")[0]: figure for figure in story_chapter(story).figures}
    correlations = figures["Correlation of true (rows) with learned latents"].drawing
    matched = story.correlation.matrix[:, story.correlation.permutation]
    assert [text.get_text() for text in correlations.texts] == [f"{value:.2f}" for value in matched.ravel()]
    pairs = figures["Each true latent against the learned one that stands for it"].drawing
    for j, ax in enumerate(pairs.axes):
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), story.aligned[:, j])
    strips = figures["Every seed against the truth; the bold one was chosen by its objective"].drawing
    chosen = story.scores["with bias"][story.biased.best_]
    assert strips.texts[0].get_text() == f"{chosen:.3f}"


def test_the_page_says_every_world_and_how_it_was_chosen(story: Story):
    page = render(demo_page([story]))
    assert "World A: 20 observations of 5 latents" in page
    assert "F1 of the dependencies 0.700" in page
    assert page.count("<svg") == 9
