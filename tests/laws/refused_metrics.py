"""What the metrics refuse, and how; what every score refuses of its two tables is in ``test_one_sentence``."""

from functools import partial

import numpy as np
import pandas as pd
from every_score import LEARNED, NOISE, Z

from noumena import metrics as M
from noumena.metrics.factors import FactorTable, factors_of, pair
from noumena.metrics.fixed import FixedFactors, fixed_factors
from noumena.metrics.kernels import kernel_ridge
from noumena.metrics.record import evaluate
from noumena.mixtures import Mixture
from noumena.structure import Structure

N = len(Z)
ROWS = np.arange(N)
CLASSES = np.c_[ROWS % 3, ROWS // 3 % 4, ROWS // 12 % 2] * 1.0
GRID = np.stack(np.divmod(np.arange(15), 5), axis=1) * 1.0
OBJECTS = np.c_[Z[:120], Z[120:]].reshape(120, 2, 3)
TWO = Mixture([0.5, 0.5], [[0, 0], [1, 1]], [np.eye(2), np.eye(2)])
FLAT = Mixture([0.5, 0.5], [[0, 0], [1, 1]], [np.diag([1, 0]), np.eye(2)])
NODES, ONE_EDGE = np.zeros((2, 2)), [[0, 1], [0, 0]]
NAMED = [[1, 0], [1, 1], [0, 1]]
mcc, r2, dci, sis, mig, sap = (partial(f, Z, LEARNED) for f in (M.mcc, M.r2, M.dci, M.sis, M.mig, M.sap))
infomec, modularity, votes = (partial(f, Z, LEARNED) for f in (M.infomec, M.modularity, M.factor_vae_score))
block, card = partial(M.block_r2, Z, LEARNED), partial(M.score, Z, LEARNED)
images, graph = partial(M.image_sis, OBJECTS, OBJECTS), partial(M.graph_distance, ONE_EDGE, ONE_EDGE)
ONCE = FactorTable(np.ones((40, 2)), (True, False), ("z1", "z2"))

DECLARED = "discrete must be True or False, one of them for each of 3 factors, or numbers or names of columns. Got "
NODE = "permutation must name different nodes among 0 to 1, or −1. Got "

REFUSED = [
    (lambda: mcc(correlation="kendall"), "correlation must be one of pearson, spearman. Got 'kendall'."),
    (lambda: M.mcc(Z[:2], Z[:2]), "z must have at least 3 rows"),
    (lambda: M.mcc(Z[:5], Z[:5], held_out=True), "z must have at least 6 rows"),
    (lambda: M.weak_mcc(Z[:7], Z[:7]), "z must have at least 8 rows"),
    (lambda: r2(regressor="forest"), "regressor must be one of linear, kernel. Got 'forest'."),
    (lambda: r2(direction="up"), "direction must be one of learned to true, true to learned. Got 'up'."),
    (lambda: r2(most_exact=-1), "most_exact must be a whole number of at least 0"),
    (lambda: kernel_ridge(Z, Z, landmarks=0), "landmarks must be a whole number of at least 1"),
    (lambda: kernel_ridge(Z, Z, most_exact=-1), "most_exact must be a whole number of at least 0"),
    (lambda: block((2, 2)), "sizes of the slots must add up to 3"),
    (lambda: block((2, 1), regressor="forest"), "regressor must be one of linear, kernel"),
    (lambda: block((2, 1), learned_blocks=(2, 2)), "sizes of the slots must add up to 3"),
    (lambda: sis(slots=2), "3 latents must fall into equal slots"),
    (lambda: sis(slots=3, learned_slots=(1, 1)), "must add up to 3 latents"),
    (lambda: sis(slots=3, max_rows=5), "max_rows must be a whole number of at least 10"),
    (lambda: dci(trees="forest"), "trees must be one of fast, reference. Got 'forest'."),
    (lambda: dci(discrete=True), "Discrete factor z1 must repeat its values"),
    (lambda: mig(max_rows=9), "max_rows must be a whole number of at least 10"),
    (lambda: mig(discrete=[7]), "discrete must be True or False"),
    (lambda: mig(estimator="kernel"), "estimator must be one of neighbours, bins. Got 'kernel'."),
    (lambda: mig(neighbours=0), "neighbours must be a whole number of at least 1"),
    (lambda: mig(estimator="bins", bins=1), "bins must be a whole number of at least 2"),
    (lambda: M.mig(np.ones((N, 2)), LEARNED), "Some factor must vary. Got 2 constant columns of z."),
    (lambda: sap(max_rows=9), "max_rows must be a whole number of at least 10"),
    (lambda: sap(discrete=[7]), "discrete must be True or False"),
    (lambda: M.sap(np.ones((N, 2)), LEARNED), "Some factor must vary. Got 2 constant columns of z."),
    (lambda: M.sap(CLASSES, LEARNED * 1e9, discrete=True, published=True), "below 1e6"),
    (lambda: infomec(discrete=(True, False)),
     "one of them for each of 3 factors, or numbers or names of columns. Got (True"),
    (lambda: infomec(discrete="yes"), "or numbers or names of columns. Got 'yes'"),
    (lambda: infomec(discrete=True), f"Discrete factor z1 must repeat its values. Got {N} values in {N} rows"),
    (lambda: infomec(prune=0.5), "prune must be a finite number in"),
    (lambda: infomec(setting="paper"), "setting must be one of standalone, training. Got 'paper'"),
    (lambda: infomec(max_rows=5), "max_rows must be a whole number of at least 10"),
    (lambda: infomec(neighbours=0), "neighbours must be a whole number of at least 1"),
    (lambda: M.infomec(np.ones((N, 2)), Z), "Some source must vary. Got 2 constant columns of z"),
    (lambda: modularity(estimator="kernel"), "estimator must be one of neighbours, bins. Got 'kernel'."),
    (lambda: modularity(regression="linear"), "regression must be one of multinomial, one-vs-rest. Got 'linear'."),
    (lambda: modularity(neighbours=0), "neighbours must be a whole number of at least 1"),
    (lambda: modularity(bins=1), "bins must be a whole number of at least 2"),
    (lambda: modularity(max_rows=9), "max_rows must be a whole number of at least 10"),
    (lambda: M.modularity(np.ones((N, 2)), Z), "Some factor must vary. Got 2 constant columns of z."),
    *((lambda v=v: votes(votes=v), "votes must be two numbers, for training and for the test")
      for v in (5, (5,), (5, 5, 5), "ab")),
    (lambda: votes(votes=(5, 0)), "The number of votes must be a whole number of at least 1. Got 0."),
    (lambda: votes(batch_size=1), "batch_size must be a whole number of at least 2. Got 1."),
    (lambda: votes(prune=-1), "prune must be a finite number in [0, inf]. Got -1."),
    (lambda: M.factor_vae_score(np.ones((N, 2)), Z), "z must have a factor of two values or more"),
    # ---- factors -----------------------------------------------------------------------------------------------
    *((lambda t=t: factors_of(CLASSES, t), DECLARED)
      for t in ([True, False], [3], [-1], ["z4"], "shape", 3, 1.5, [0.0], {"z1": True}, [[0, 1]], np.ones((3, 3)) > 0)),
    (lambda: factors_of(np.array([["a"]] * 9)), "z must have at least 10 rows"),
    (lambda: factors_of(np.empty((20, 0), dtype=object)), "z must have columns"),
    (lambda: factors_of(5), "z must have two axes"),
    (lambda: pair(np.ones((12, 2)), np.ones((12, 2)), min_rows=13), "z must have at least 13 rows"),
    (lambda: fixed_factors(factors_of(GRID), min_group=1), "min_group must be a whole number of at least 2. Got 1."),
    (lambda: fixed_factors(factors_of(GRID), bins=1), "bins must be a whole number of at least 2. Got 1."),
    (lambda: fixed_factors(factors_of(GRID)),
     "one of which occurs in 16 rows. Got 2 factors without, in 15 rows (5 at"),
    (lambda: fixed_factors(ONCE), "z must have a factor of two values or more"),
    (lambda: FixedFactors(np.full((4, 1), -1), (0,), ("z1",)).draw(1, 2, np.random.default_rng(0)),
     "must have a value that occurs in 2 rows to be fixed. Got none."),
    # ---- information -------------------------------------------------------------------------------------------
    (lambda: M.mutual_information(np.arange(5.0), np.arange(5)),
     "A discrete source must repeat its values. Got 5 different"),
    (lambda: M.mutual_information(np.ones(1), np.ones(1)), "must have 2 finite rows or more"),
    (lambda: M.mutual_information(np.array([1, np.nan]), np.ones(2)), "must have 2 finite rows or more. Got [ 1. nan]"),
    (lambda: M.mutual_information(np.ones(2), np.ones(2), neighbours=0),
     "neighbours must be a whole number of at least 1"),
    (lambda: M.information_matrix(Z[:, :2], Z, (False,)), f"Got 1 kinds, 2 factors, {N} and {N} rows"),
    (lambda: M.information_matrix(Z, Z, (False,) * 3, neighbours=0), "neighbours must be a whole number of at least 1"),
    # ---- images ------------------------------------------------------------------------------------------------
    (lambda: M.image_sis(OBJECTS[:, :, 0], OBJECTS),
     "objects must have three axes, (image, object, dim). Got shape (120, 2)"),
    (lambda: M.image_sis(OBJECTS, OBJECTS[0]), "slots must have three axes, (image, slot, dim)"),
    (lambda: M.image_sis(OBJECTS, OBJECTS[1:]), "objects and slots must share their batch axis"),
    (lambda: M.image_sis(OBJECTS[:9], OBJECTS[:9]), "slots must have at least 10 rows"),
    (lambda: M.image_sis(OBJECTS, np.where(OBJECTS > 1, np.nan, OBJECTS)), "slots must be finite"),
    (lambda: M.image_sis([[[1.0], [2.0]], [[1.0]]], OBJECTS), "objects must be a rectangular array"),
    (lambda: images(max_rows=5), "max_rows must be a whole number of at least 10"),
    (lambda: images(present=np.ones((120, 2))), "present must be boolean, of the shape (120, 2) of objects"),
    (lambda: images(present=np.zeros((120, 2), bool)), "present must name an object in at least 10 images. Got 0"),
    (lambda: images(discrete=True), "Discrete factor z1 must repeat its values"),
    # ---- graphs, structures, mixings, mixtures -------------------------------------------------------------------
    *((lambda p=p: graph(permutation=p), NODE)
      for p in ([-3, -2], "ab", [None, 1], [np.nan, 1], [0.7, 1.2], [0, 0], [0, 2])),
    (lambda: M.graph_distance(np.eye(2), NODES), "truth must be a square array without loops"),
    (lambda: M.graph_distance(NODES, np.zeros((2, 3))), "learned must be a square array"),
    (lambda: M.graph_distance(NODES, np.zeros((3, 3))), "truth and learned must have as many nodes. Got 2 and 3"),
    (lambda: graph(shuffles=-1), "shuffles must be a whole number of at least 0"),
    (lambda: M.cpdag([[0, 1, 0], [0, 0, 1], [1, 0, 0]]), "adjacency must have no cycle"),
    (lambda: M.causal_graph(Z, alpha=2), "alpha must be a finite number"),
    (lambda: M.causal_graph(Z, active=np.ones((N, 2), bool)), "active must be boolean, of the shape"),
    (lambda: M.causal_graph(Z, active=np.ones(Z.shape)), "active must be boolean"),
    (lambda: M.causal_graph(Z[:5]), "z must have at least 8 rows"),
    (lambda: M.structure_distance(Structure([[1]]), Structure([[1], [1]])),
     "Structures must have the same observations. Got 1 and 2"),
    (lambda: M.structure_distance(Structure(NAMED, observed=list("abe")), Structure(NAMED, observed=list("abg"))),
     "truth and learned must name the same observations. Got e only in truth and g only in learned."),
    (lambda: M.structure_distance(NAMED, NAMED, shuffles=-1), "shuffles must be a whole number of at least 0"),
    (lambda: M.amari_distance(np.ones((2, 3)), np.ones((2, 3))), "must be (sources, observed)"),
    (lambda: M.amari_distance(np.ones((1, 1)), np.ones((1, 1))), "two sources or more"),
    (lambda: M.amari_distance([[1.0, 0], [1, 0]], np.eye(2)), "must have an entry"),
    (lambda: M.amari_distance(np.eye(2), np.eye(2), shuffles=-1),
     "shuffles must be a whole number of at least 0. Got -1."),
    (lambda: M.affine_distance(TWO, FLAT), "q must have non-degenerate components only"),
    (lambda: M.affine_distance(TWO, TWO.marginal([0])), "p and q must have as many latents. Got 2 and 1"),
    (lambda: M.agreement([]), "a model to compare"),
    (lambda: M.agreement([Z, Z[1:]]), "The first model and every other must share their batch axis"),
    (lambda: M.agreement([Z, Z], shuffles=-1), "shuffles must be a whole number"),
    (lambda: M.hoyer([1.0]), "at least two features. Got 1"),
    (lambda: M.hoyer([0.0, 0.0]), "not all zero"),
    (lambda: M.hoyer([1.0, -1.0]), "at least zero"),
    (lambda: M.hoyer([np.nan, 1.0]), "w must be finite"),
    (lambda: M.hoyer(["a", "b"]), "w must"),
    (lambda: M.concentration(0.5, 0.0), "rest must be positive. Got 0"),
    (lambda: M.concentration(float("nan"), 0.5), "top must be a finite number"),
    (lambda: M.concentration(1e308, 1e-308), "must be finite"),
    # ---- the scorecard and what stands beside --------------------------------------------------------------------
    (lambda: card(metrics="fid"), "metrics must be one of"),
    (lambda: card(metrics=None), "metrics must be one of"),
    (lambda: card(metrics=3), "metrics must be one of"),
    (lambda: card(metrics=[]), "must name a score"),
    (lambda: card(max_rows=5), "max_rows must be a whole number of at least 10"),
    (lambda: card(discrete="colour"), "names of columns"),
    (lambda: card(slots=(2, 2), metrics="sis"), "add up to 3"),
    (lambda: M.score(Z, NOISE[:, :2], metrics=["sis"]), "as many learned latents"),
    (lambda: card(metrics="mcc")["fid"], "must be one of mcc"),
    *((lambda n=n: evaluate(lambda z, h: None, Z, Z, **{n: -1}),
     f"{n} must be a whole number of at least 0. Got -1.")  # type: ignore[arg-type, type-var]
      for n in ("shuffles", "subsamples")),
    *((lambda n=n: mcc(subsamples=n), f"subsamples must be 0 or at least 10 halves of the rows. Got {n}.")
      for n in (1, 9)),
    (lambda: M.mig(pd.DataFrame({"id": [f"row {k}" for k in ROWS], "x": Z[:, 0]}), Z), "must repeat"),
]  # fmt: skip
