"""A variational autoencoder that clusters the same rows in several ways at once, one per facet of its latents.

Model: facet ``j`` has a cluster ``c_j ~ π_j`` and latents ``z_j | c_j ~ N(μ_c, diag σ²_c)`` of its own, the facets are
independent, ``x = f(z_1 … z_J)`` with noise. Objective (minimised), per row:
``‖x − f(z)‖² + β·Σ_j KL_j + penalty(f, z)``, ``KL_j = −log Σ_c π_c·exp(−KL(q(z_j|x) ‖ N_c))``, the divergence with the
best ``q(c_j|x)``, in closed form.
*Fade-in*: the first facet is there from the start, the others are switched on one after the other; a facet that is
half on reaches the decoder at half its size and pays half its KL. The first facet takes what explains most, and which
way of clustering lands in which facet is no accident any more. As for ``VaDE`` an autoencoder comes first.

Reference: Falck et al. (2021), *Multi-facet clustering variational autoencoders*, with progressive training; Kivva et
al. (2022). Renamed: ``α_j`` are ``gates``.

**Deviations.** One encoder and one decoder are shared by all facets, where the paper has a ladder of them; nothing but
the fade-in tells facets apart. ``KL_j`` is exact, where the paper draws a point. Mixtures begin as fits to the codes of
an autoencoder, whose facets are faded in too: begun at random, most seeds of a world with two ways of clustering mix
them up. Mixtures have mean 0 and variance 1 and a floor (see ``mixture_prior``). Held-out objectives are read with all
facets on, so that models are compared as they will be used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from noumena import checks
from noumena.estimators.mixture_prior import MixtureParameters, best_log_responsibilities
from noumena.estimators.mixture_vae import MixtureObjective, MixtureVAE
from noumena.estimators.parameters import number
from noumena.mixtures import Mixture


def gates(progress: float, n_facets: int, fade: float) -> list[float]:
    """How far every facet is on: the first always, the others one after the other over a share ``fade`` of the fit.

    >>> gates(0.375, 3, 0.5), gates(0.0, 2, 0.0)
    ([1.0, 1.0, 0.5], [1.0, 1.0])
    """
    turn = n_facets - 1 if progress >= fade else (n_facets - 1) * progress / fade
    return [min(1.0, max(0.0, turn - j + 1)) for j in range(n_facets)]


class FacetsObjective(MixtureObjective):
    """``reconstruction + β·Σ_j KL_j + penalty`` with the best responsibilities, facets faded in."""

    fade = 0.0

    def responsible(self, kl: Tensor, z: Tensor, law: MixtureParameters) -> Tensor:
        """The best ``log q(c|x)``, whatever point was drawn."""
        return best_log_responsibilities(kl, law)

    def gates(self, progress: float) -> list[float]:
        """How far every facet is switched on."""
        return gates(progress, len(self.sizes), self.fade)


@dataclass(eq=False, repr=False, kw_only=True)
class MFCVAE(MixtureVAE):
    """A variational autoencoder whose latents fall into facets, each with a Gaussian mixture for a prior.

    Parameters
    ----------
    facets : pairs of int
        Latents and clusters of each facet; facet ``j`` is the ``j``-th group of columns of ``ẑ``.
    fade : float, default 0.5
        Share of the steps over which facets are switched on, one after the other.
    beta : float, optional
        Weight of the KL terms; 0.01 against squared errors and 1 against a Bernoulli likelihood by default.
    pretraining : int, default 1000
        Steps as an autoencoder, after which mixtures are fitted to the codes; 0 begins with random mixtures.
    likelihood : {"gaussian", "bernoulli"}
        Squared error, or cross-entropy of rows in [0, 1] with ``standardise=False`` and logits from the decoder.
    encoder, decoder : builder, optional
        Called with the numbers of inputs and outputs; an encoder gives mean and log-variance.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.

    Attributes
    ----------
    mixtures_ : tuple of Mixture
        Priors of the best model; ``mixtures_of(k)`` are those of another.
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    References
    ----------
    Falck, Zhang, Willetts, Nicholson, Yau and Holmes (2021), *Multi-facet clustering variational autoencoders*,
    https://arxiv.org/abs/2106.05241.

    Examples
    --------
    >>> MFCVAE(((2, 3), (1, 4))).n_latents
    3
    """

    facets: Any = field(default=((5, 25), (5, 25)), kw_only=False)
    fade: float = number(0.5, minimum=0, maximum=1)

    @property
    def n_latents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All facets' latents."""
        return sum(latents for latents, _ in self._facets())

    def _facets(self) -> tuple[tuple[int, int], ...]:
        given = self.facets if isinstance(self.facets, tuple | list) else ()
        pairs = [facet for facet in given if isinstance(facet, tuple | list) and len(facet) == 2]
        whole = 0 < len(pairs) == len(given)
        checks.require(whole, "facets must be pairs (latents, clusters), one for each.", repr(self.facets))
        names = ("The latents of a facet", "The clusters of a facet")
        return tuple((checks.count(n, names[0]), checks.count(k, names[1])) for n, k in pairs)

    def _check(self) -> None:
        super()._check()
        self._facets()

    def _objective(self, *parts: Any, **how: Any) -> MixtureObjective:
        objective = FacetsObjective(*parts, **how)
        objective.fade = self.fade
        return objective

    @property
    def mixtures_(self) -> tuple[Mixture, ...]:
        """The law of every facet of the best model's latents."""
        check_is_fitted(self)
        return self.mixtures_of(self.best_)

    def mixtures_of(self, k: int) -> tuple[Mixture, ...]:
        """The law of every facet of the k-th model's latents."""
        check_is_fitted(self)
        return tuple(prior.mixture() for prior in self.models_[k].priors)  # type: ignore[operator, union-attr]

    def responsibilities(self, x: Any) -> tuple[np.ndarray, ...]:
        """``q(c_j|x)`` of the best model, an array (batch, cluster) per facet."""
        check_is_fitted(self)
        shares = np.asarray(self._through(x, "share", self.best_))
        return tuple(np.split(shares, np.cumsum([clusters for _, clusters in self._facets()])[:-1], axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """The cluster of every row in every facet, (batch, facet)."""
        return np.stack([shares.argmax(axis=1) for shares in self.responsibilities(X)], axis=1)
