"""What cannot be certified is refused in one sentence; what is certified says nothing that its own points deny."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import noumena as nm
from noumena.checks import InputError
from noumena.guarantees.witness import build
from noumena.worlds import structured

MATRIX = torch.tensor([[1.0, 0], [1.3, 0], [0.7, 0], [1, 1.2], [0.8, -1], [0, 1], [0, 1.1], [0, 0.9]])
STRUCTURE = nm.Structure(MATRIX.numpy() != 0)
POINTS = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))


def decoder(z: Tensor) -> Tensor:
    return z @ MATRIX.to(z.dtype).T


def refusal(subject: Any, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        nm.certify(subject, **options)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert " Got " in sentence
    return sentence


# ---- decoders that cannot be read ----------------------------------------------------------------------------


def through_numpy(z: Tensor) -> Tensor:
    return torch.as_tensor(np.tanh(z.detach().numpy()) @ MATRIX.numpy().T)


def to_numpy(z: Tensor) -> Any:
    return np.zeros((len(z), 3))


NOT_DIFFERENTIABLE: dict[str, Callable[[Tensor], Any]] = {
    "detached": lambda z: decoder(z).detach(),
    "detached inside": lambda z: decoder(torch.tanh(z.detach())),
    "one observation detached": lambda z: torch.cat([decoder(z), decoder(z.detach())[:, :1]], dim=1),
    "numpy inside": through_numpy,
    "numpy at the end": to_numpy,
    "rounded": lambda z: decoder(torch.round(z)),
}


@pytest.mark.parametrize("kind", NOT_DIFFERENTIABLE)
def test_a_decoder_without_derivatives_is_refused(kind: str) -> None:
    assert "differentiable" in refusal(NOT_DIFFERENTIABLE[kind], at=POINTS)


def test_what_a_decoder_complains_about_is_told_in_one_line() -> None:
    def complaining(z: Tensor) -> Tensor:
        raise RuntimeError("the first line\nand the second")

    assert "the first line" in refusal(complaining, at=POINTS)


def test_a_decoder_with_another_batch_size_is_refused() -> None:
    assert "(64, 2) → (5, 8)" in refusal(lambda z: decoder(z)[:5], at=POINTS)
    assert "(64, 2) → (8,)" in refusal(lambda z: decoder(z).mean(dim=0), at=POINTS)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_decoder_that_leaves_the_finite_numbers_is_refused(value: float) -> None:
    assert "finite" in refusal(lambda z: decoder(z) * value, at=POINTS)


def test_a_decoder_that_is_constant_is_refused_or_certified_without_a_warning() -> None:
    certificate = nm.certify(lambda z: torch.ones(len(z), 3, dtype=z.dtype) + 0 * z.sum(dim=1, keepdim=True), at=POINTS)
    assert certificate.answer != "identified"


class Noisy(nn.Module):
    def __init__(self, layer: nn.Module):
        super().__init__()
        self.linear, self.layer = nn.Linear(2, 8), layer

    def forward(self, z: Tensor) -> Tensor:
        return self.layer(self.linear(z))


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.BatchNorm1d(8)], ids=["dropout", "batch norm"])
def test_a_module_in_training_mode_is_refused_and_certified_in_evaluation_mode(layer: nn.Module) -> None:
    torch.manual_seed(0)
    refusal(Noisy(layer), at=POINTS)
    assert nm.certify(Noisy(layer).eval(), at=POINTS).subject == "decoder"


# ---- points --------------------------------------------------------------------------------------------------


def test_one_sample_point_is_too_few() -> None:
    for points in (POINTS[:1], POINTS[:1].numpy()):
        sentence = refusal(decoder, at=points)
        assert "two" in sentence or "2 rows" in sentence
        assert "Got 1" in sentence


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_few_points_are_certified_or_refused_and_never_a_warning(n: int) -> None:
    try:
        certificate = nm.certify(decoder, at=POINTS[:n])
    except InputError:
        return
    assert np.array_equal(certificate.structure.dense, STRUCTURE.dense)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (POINTS[:, 0], "two axes"),
        (POINTS * float("nan"), "Latent points must be finite."),
        ([[1.0, 2.0], [3.0]], "rectangular"),
        ("nowhere", "numbers"),
    ],
    ids=["one axis", "not finite", "ragged", "words"],
)
def test_points_must_be_a_finite_table(points: Any, words: str) -> None:
    assert words in refusal(decoder, at=points)


def test_whole_numbers_are_points_too() -> None:
    points = (10 * POINTS).round()
    expected = nm.certify(decoder, at=points).to_dict()
    assert nm.certify(decoder, at=points.long().numpy()).to_dict() == expected
    assert nm.certify(decoder, at=points.long()).to_dict() == expected


@pytest.mark.parametrize("subject", [decoder, nn.Linear(2, 8)], ids=["function", "module"])
def test_points_must_have_as_many_columns_as_the_decoder_takes(subject: Any) -> None:
    assert "(64, 3)" in refusal(subject, at=torch.randn(64, 3))


def test_points_are_needed_for_a_decoder() -> None:
    assert refusal(decoder) == "certify(decoder) must be given latent points, at=z. Got at=None."
    assert "at=z" in refusal(nn.Linear(2, 8))


def test_points_without_a_decoder_are_refused() -> None:
    assert "must come with a decoder" in refusal(STRUCTURE.dense, at=POINTS)
    assert "must come with a decoder" in refusal(STRUCTURE, at=POINTS)
    assert "must come with a decoder" in refusal(structured(STRUCTURE, random_state=1), at=POINTS)


def test_a_file_with_points_is_refused(tmp_path: Any) -> None:
    STRUCTURE.to_csv(tmp_path / "s.csv")
    assert "must come with a decoder" in refusal(tmp_path / "s.csv", at=POINTS)


def test_a_threshold_without_a_decoder_is_refused() -> None:
    assert "threshold" in refusal(STRUCTURE, threshold=0.3)
    assert "threshold" in refusal(STRUCTURE.dense, threshold=0.3)
    assert "threshold" in refusal(decoder, at=POINTS, threshold=float("nan"))


@pytest.mark.parametrize("subject", [None, 3, {"a": 1}])
def test_what_is_no_subject_is_refused(subject: Any) -> None:
    assert "structure" in refusal(subject)


def test_an_estimator_that_was_not_fitted_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        nm.certify(nm.VAE(2))


# ---- competitors are available -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("support", "law", "seed"),
    [
        ([[1, 0], [0, 1], [0, 1], [1, 1]], "uniform", 1),
        ([[1, 1], [1, 1], [1, 1], [1, 0], [1, 1]], "gaussian", 3),
        ([[0, 1, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0]], "gaussian", 27),
    ],
)
def test_every_competitor_of_a_world_is_a_model_that_verifies(support: list[list[int]], law: str, seed: int) -> None:
    certificate = nm.certify(structured(nm.Structure(support), law=law, random_state=seed))
    assert certificate.model is not None
    for competitor in certificate.competitors:
        found = build(competitor, certificate.model).verify()
        assert found.holds, f"{competitor.sentence}: {found}"


def test_a_world_of_mixtures_is_read_by_the_theorems_of_its_law_and_its_mixing():
    generic = nm.certify(nm.worlds.degenerate(4, means=1.0, layers=2, random_state=0))
    answers = {h.name: h.answer for h in generic.hypotheses}
    assert answers["the mixing is injective, continuous and piecewise affine"] == "holds"
    assert generic.broken == ()
    assert str(generic.ambiguity(0)) == "permutation+scaling"
    published = nm.certify(nm.worlds.degenerate(4, layers=2, random_state=0))
    assert published.broken == ("3.4 Mahalanobis distances tell components apart",)


def test_a_world_without_a_gaussian_law_is_refused_in_one_sentence():
    with pytest.raises(nm.InputError, match=r"must have a Gaussian mixture of latents.*Got a DegenerateWorld\.$"):
        nm.certify(nm.worlds.degenerate(4, noise="gumbel", layers=2))


def test_a_fitted_degenerate_mixture_is_read_with_what_it_explains():
    sample = nm.worlds.degenerate(4, means=1.0, layers=1, random_state=1).sample(4000)
    reading = nm.certify(nm.DegenerateMixture(stage1="identity").fit(sample.x))
    answers = {h.name: h.answer for h in reading.hypotheses}
    assert answers["(2) the data are reconstructed"] == "supported"
    assert answers["3.8a every support is spanned by axes"] == "supported"
    assert str(reading.ambiguity(0)) == "permutation+scaling"
