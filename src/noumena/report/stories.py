"""The demo's page: two worlds side by side with their truth."""

from __future__ import annotations

from noumena import charts
from noumena.demo import Story
from noumena.report import plots
from noumena.report.certificates import certificate_figures, certificate_tables, verdict_of
from noumena.report.chapters import curves_figure
from noumena.report.explorer import explorer
from noumena.report.page import Chapter, Page, PageFigure, PageTable
from noumena.report.seeds import seeds_told

LEAD = (
    "Two worlds with five hidden variables. In both, the same estimator is trained from eight seeds to explain the "
    "data with few dependencies."
)
LEADS = {
    "A": "Every observation depends on several latents, and the latents leave enough traces: every exchange of latents "
    "costs dependencies. So the sparsest explanation is the true one.",
    "B": "As many observations as latents, the setting of the published experiments. The observations themselves are "
    "the sparsest explanation, whatever the truth: seeds may well agree on it, and it is wrong.",
}


def demo_page(stories: list[Story]) -> Page:
    """The whole demo as one page."""
    return Page(
        title="What can be trusted about learned latents?",
        lead=" ".join([LEAD, *(_found(story) for story in stories), "The certificate never sees the truth."]),
        summary=summary_table(stories),
        chapters=tuple(story_chapter(story) for story in stories),
        footer="Models are chosen by their own held-out objective. MCC: mean correlation with the true latents after "
        "matching, a score that forgives order and scale.",
    )


def _found(story: Story) -> str:
    """What came out of a world in one sentence."""
    row = story.row
    return (
        f"In world {row['world']} the chosen seed matches the hidden variables to {row['MCC']:.2f}, the seeds match "
        f"each other to {row['agreement']:.2f}, and the certificate says: {row['fit is']}."
    )


def summary_table(stories: list[Story]) -> PageTable:
    """One row per world."""
    rows = [story.row for story in stories]
    return PageTable(
        "Two worlds in one table",
        tuple(rows[0]),
        tuple(tuple(row.values()) for row in rows),
        note="gap: Occam gap of the world. world is, fit is: the certificate's verdict on the true structure, and on "
        "the fitted model, which never saw it. agreement: between the eight seeds. MCC: of the chosen seed with the "
        "bias; no bias: without it; x, PCA, ICA: of the observations and their components. F1: of the dependencies.",
    )


def story_chapter(story: Story) -> Chapter:
    """One world: truth and learned structure side by side, scores beside baselines, the certificate in words."""
    return Chapter(
        title=f"World {story.setting.name}: {story.setting.title}",
        lead=f"{LEADS[story.setting.name]} With the bias: {seeds_told(story.biased)}",
        verdict=verdict_of(story.certificate),
        explorer=explorer(story.certificate),
        figures=(
            _structures(story),
            _scores(story),
            _correlations(story),
            _pairs(story),
            *certificate_figures(story.certificate),
            curves_figure(story.biased),
        ),
        tables=(_scores_table(story), *certificate_tables(story.certificate)),
        details=f"{story.certificate}\n\n\nThe world itself, had it been known\n\n{story.truth}",
    )


def _structures(story: Story) -> PageFigure:
    truth, learned = story.world.structure, story.biased.structure_
    order, evidence = story.columns, learned.evidence
    strength = None if evidence is None else evidence.strength[:, order]
    svg = plots.structure_heatmap(
        truth.dense, learned.dense[:, order], observed=truth.observed, latent=truth.latent, strength=strength
    )
    return PageFigure(
        svg, f"True and learned structure, columns matched. F1 of the dependencies {story.structure_f1:.3f}."
    )


def _scores(story: Story) -> PageFigure:
    marked = {name: float(values[_chosen(story, name)]) for name, values in story.scores.items()}
    scores = {k: v.tolist() for k, v in story.scores.items()}
    return PageFigure(
        charts.strips(scores, x_label="MCC with the truth", marked=marked),
        "Every seed against the truth; the bold one was chosen by its objective. Baselines need no training.",
        title=f"MCC with the truth of {len(scores)} groups",
    )


def _correlations(story: Story) -> PageFigure:
    score = story.correlation
    names = story.world.structure.latent
    drawn = charts.correlations(
        score.matrix[:, score.permutation], rows=names, columns=[f"ẑ{j + 1}" for j in score.permutation]
    )
    return PageFigure(
        drawn, f"Correlation of true (rows) with learned latents, matched. Chance level {score.chance:.2f}."
    )


def _pairs(story: Story) -> PageFigure:
    drawn = charts.pairs(story.judged[0], story.aligned, names=story.world.structure.latent)
    return PageFigure(drawn, "Each true latent against the learned one that stands for it, up to order and scale.")


def _scores_table(story: Story) -> PageTable:
    rows = tuple(
        (name, float(values[_chosen(story, name)]), float(values.mean()), float(values.std()), len(values))
        for name, values in story.scores.items()
    )
    note = f"Agreement between the seeds with the bias: {story.agreement:.3f} (mean MCC over pairs)."
    return PageTable("MCC with the truth", ("method", "chosen by objective", "mean", "sd", "seeds"), rows, note=note)


def _chosen(story: Story, name: str) -> int:
    return {"with bias": story.biased.best_, "without bias": story.plain.best_}.get(name, 0)
