"""Subjects: ``certify`` is one door for structures, worlds, fitted models, decoders, mixtures and representations.

A table of kinds says which reader a subject belongs to; ``by`` names the theorems instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from noumena import checks
from noumena.guarantees.certificate import Certificate
from noumena.guarantees.structures import certify_structure
from noumena.structure import Structure

if TYPE_CHECKING:
    from noumena.mixtures import Mixture

THEOREMS = {
    "mechanisms": "noumena.guarantees.mechanisms.mechanisms",
    "mixtures": "noumena.guarantees.mixtures.mixture_ladder",
    "degenerate": "noumena.guarantees.degenerate.degenerate_ladder",
    "nearness": "noumena.guarantees.nearness.nearness",
}
"""Theorems that a subject can be read by on request, and the function that does."""


# ---- one door ------------------------------------------------------------------------------------------------


@overload
def certify(
    subject: Any, *, by: None = None, at: Any = None, threshold: float | None = None, independent: bool = False
) -> Any: ...


@overload
def certify(subject: Any, *, by: str, at: Any = None, **settings: Any) -> Certificate: ...


def certify(
    subject: Any,
    *,
    by: str | None = None,
    at: Any = None,
    threshold: float | None = None,
    independent: bool = False,
    **settings: Any,
) -> Any:
    """What can be trusted about the latents of a subject, and why.

    Parameters
    ----------
    subject : Structure, array, path, world, fitted model, decoder, mixture, or sequence of arrays
        A structure may be a ``Structure``, a boolean array or a path to its CSV. A mixture (``worlds.Mixture``, or
        scikit-learn's fitted one), a world or a fitted model whose latents are one, and two or more arrays of
        representations of the same rows are read by the theorems made for them.
    by : {"mechanisms", "mixtures", "degenerate", "nearness"}, optional
        Theorems to read the subject by: Matthes et al. (2026), Kivva et al. (2022), Xu et al. (2026), Nelson et al.
        (2026). By default what the subject is decides.
    at : array of shape (n_points, n_latents), optional
        Latent points of a decoder; of a fitted mixture rows of latents that its fit did not see, without which nothing
        is concluded.
    threshold : float, optional
        The strength above which a fitted decoder's entry counts as a dependency; by default the widest gap decides.
    independent : bool
        Demand independent latents of both models, which leaves fewer competitors.
    **settings
        What the theorems asked for by name take, such as ``blocks=`` of mechanisms.

    Returns
    -------
    Certificate
        Of a structure or a subject with a decoder, a ``StructureCertificate``, which also has competitors, witnesses
        and queries.

    Examples
    --------
    >>> certify(Structure([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])).answer
    'identified'
    >>> print(certify(Structure([[1, 1], [0, 1], [0, 1]])).verdict("z1", "z2").competitor.kind)
    shear
    >>> certify(Structure([[1, 0], [1, 0], [0, 1], [0, 1]]), by="mechanisms", region="box").answer
    'identified'
    """
    if by is not None:
        refused = next((name for name, value in (("threshold", threshold), ("independent", independent)) if value), "")
        checks.require(not refused, f"by={by!r} must come without threshold and independent.", refused)
        return _by(by, subject, at, settings)
    must = f"Settings of theorems must come with by=, one of {', '.join(THEOREMS)}."
    checks.require(not settings, must, ", ".join(settings))
    kind = next(kind for kind in KINDS if kind.includes(subject))
    asked = Asked(at, threshold, independent)
    kind.check(subject, asked)
    return kind.certify(subject, asked)


def _by(name: str, subject: Any, at: Any, settings: dict[str, Any]) -> Certificate:
    """The theorems of that name read on a subject."""
    checks.one_of(name, "by", tuple(THEOREMS))
    module, function = THEOREMS[name].rsplit(".", 1)
    read = getattr(import_module(module), function)
    parameters = signature(read).parameters
    takes = [name for name in parameters if name not in ("subject", "mixture", "at", "rows", "decoder")]
    wrong = [name for name in settings if name not in parameters]
    checks.require(not wrong, f"by={name!r} must come with settings among {', '.join(takes)}.", ", ".join(wrong))
    subject = _read_file(subject) if _is_file(subject) else subject
    if "at" in parameters:
        return read(subject, at=at, **settings)
    law, facts = _mixture_of(subject, at)
    return read(law, **{name: value for name, value in facts.items() if name in parameters} | settings)


# ---- the kinds of subjects -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What else ``certify`` was told."""

    at: Any
    threshold: float | None
    independent: bool


@dataclass(frozen=True)
class Kind:
    """One kind of subject: what belongs to it, how it is certified, and whether it is looked at in points."""

    includes: Callable[[Any], bool]
    certify: Callable[[Any, Asked], Certificate]
    points: Callable[[Any], bool] = lambda subject: False
    fitted: bool = False

    def check(self, subject: Any, asked: Asked) -> None:
        """Refuse points and thresholds where nothing can be done with them."""
        name = f"a {type(subject).__name__}"
        own = "A fitted model has its own latent points; leave at out, or certify its decoder, model.decoder_, at=z."
        checks.require(not self.fitted or asked.at is None, own, f"at for {name}")
        must = "Latent points at=z must come with a decoder to be called."
        checks.require(asked.at is None or self.points(subject), must, name)
        able = self.fitted or callable(subject)
        checks.require(asked.threshold is None or able, "A threshold must come with a decoder or a fitted model.", name)


def _is_mixture(subject: Any) -> bool:
    return hasattr(subject, "covariances") or hasattr(subject, "covariances_")


def _has_mixture(subject: Any) -> bool:
    """A world of mixtures, which is known, or a model fitted as one; one that is both has a structure to be read."""
    return hasattr(subject, "mixture") or (hasattr(subject, "mixture_") and not _is_fit(subject))


def _are_runs(subject: Any) -> bool:
    several = isinstance(subject, list | tuple) and len(subject) > 0
    return several and all(len(np.shape(run)) == 2 for run in subject)


def _is_fit(subject: Any) -> bool:
    return hasattr(subject, "structure_of")


def _is_file(subject: Any) -> bool:
    return isinstance(subject, str | PathLike)


def _has_decoder(subject: Any) -> bool:
    return hasattr(subject, "decoder") or callable(subject)


def _certify_runs(subject: Any, asked: Asked) -> Certificate:
    from noumena.guarantees.nearness import nearness

    return nearness(subject)


def _read_file(subject: Any) -> Structure:
    must = "A structure must be a CSV file; what was fitted into a folder is certified by nm.certify(nm.load(folder))."
    checks.require(not Path(subject).is_dir(), must, f"the folder {subject}")
    return Structure.from_csv(Path(subject))


def _certify_file(subject: Any, asked: Asked) -> Certificate:
    return certify_structure(_read_file(subject), independent=asked.independent)


def _certify_decoder(subject: Any, asked: Asked) -> Certificate:
    from noumena.guarantees.models import certify_decoder  # torch is imported when there is a decoder

    return certify_decoder(subject, at=asked.at, threshold=asked.threshold, independent=asked.independent)


def _certify_structure(subject: Any, asked: Asked) -> Certificate:
    return certify_structure(subject, independent=asked.independent)


def _certify_table(subject: Any, asked: Asked) -> Certificate:
    must = (
        "A model without a decoder must be read by what applies to it, see docs/choose.md, or by the structure of its "
        "mixing matrix (observed, latent), as nm.certify(abs(model.mixing_) > 0.1)."
    )
    checks.require(not hasattr(subject, "fit"), must, f"a {type(subject).__name__}")
    return certify_structure(Structure(subject), independent=asked.independent)


def _certify_mixture(subject: Any, asked: Asked) -> Certificate:
    """A mixture by its theorems: those of full covariances, or those of flat ones."""
    from noumena.guarantees.mixtures import precision, variance_tolerance

    law, facts = _mixture_of(subject, asked.at)
    tolerance = variance_tolerance(precision(facts["exact"], None))
    full = bool((law.standardised().ranks(tolerance=tolerance) == law.n_latents).all())  # as both judge
    return _by("mixtures" if full else "degenerate", subject, asked.at, {})


def _mixture_of(subject: Any, at: Any) -> tuple[Mixture, dict[str, Any]]:
    """The mixture that a subject is, or that its latents are, with what is known of it: whether it is exact and not
    fitted, its decoder, the share that it explains, and rows to judge it on."""
    from noumena.mixtures import Mixture

    if _is_mixture(subject):
        law = Mixture.of(subject)
        return law, {"exact": not law.fitted, "decoder": None, "explained": None, "rows": at}
    own = hasattr(subject, "mixture")
    found = subject.mixture if own else getattr(subject, "mixture_", None)
    must = "A world must have a Gaussian mixture of latents to be certified."
    checks.require(found is not None, must, f"a {type(subject).__name__}")
    criteria = getattr(subject, "criteria_", None)
    facts = {
        "exact": own and not getattr(found, "fitted", True),
        "decoder": getattr(subject, "decoder" if own else "decoder_", None),
        "explained": None if criteria is None else criteria.explained,
        "rows": getattr(subject, "points_", None) if at is None else at,
    }
    return Mixture.of(found), facts


KINDS = (
    Kind(lambda subject: isinstance(subject, Structure), _certify_structure),
    Kind(_is_mixture, _certify_mixture, points=lambda subject: getattr(subject, "fitted", True)),
    Kind(_has_mixture, _certify_mixture, points=callable),
    Kind(_are_runs, _certify_runs),
    Kind(_is_file, _certify_file),
    Kind(_is_fit, _certify_decoder, fitted=True),
    Kind(_has_decoder, _certify_decoder, points=callable),
    Kind(lambda subject: True, _certify_table),
)
"""From the most particular: the first kind that a subject belongs to certifies it."""
