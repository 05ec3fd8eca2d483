"""Laws over every world: what its seed decides, that samples are their latents decoded, and what it refuses."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sentences import ids, refusal

from noumena import worlds as W
from noumena.structure import Structure
from noumena.worlds.mixings import layered

PAIR = Structure([[1, 0], [1, 1], [0, 1]])
TWO = W.Mixture([0.3, 0.7], [[3, 0], [-1, 2]], [np.eye(2), [[2, 1], [1, 1]]])
ONE = W.Mixture([1.0], [[0]], [[[1]]])
WORLDS: dict[str, Callable[..., Any]] = {
    "structured": lambda **s: W.structured(PAIR, **s),
    "slots": lambda **s: W.overlapping(2, overlap=0.5, **s),
    "degenerate": lambda **s: W.degenerate(4, layers=3, means=0.5, **s),
    "degenerate and smooth": lambda **s: W.degenerate(4, layers=3, mixing="smooth", noise="gumbel", **s),
    "two bases": lambda **s: W.two_bases(4, means=1.0, layers=2, **s),
    "a given mixture": lambda **s: W.mixed(TWO, layers=4, slope=0.3, **s),
    "not degenerate": lambda **s: W.non_degenerate(4, edges=1, layers=3, **s),
    "hidden variables": lambda **s: W.hidden_variables([[1, 1, 0], [0, 1, 1]], sizes=(2, 3), layers=2, **s),
    "equal distances": lambda **s: W.equal_distances(3, layers=2, **s),
    "pinwheel": lambda **s: W.pinwheel(**s),
}
SMOOTH = {name: make for name, make in WORLDS.items() if name != "pinwheel"}
every = pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
smooth = pytest.mark.parametrize("make", SMOOTH.values(), ids=SMOOTH)


@every
def test_seeds_decide_the_world_and_the_draws_separately(make: Callable[..., Any]) -> None:
    world, again, other = make(random_state=1), make(random_state=1), make(random_state=2)
    drawn, same = world.sample(9, random_state=3), again.sample(9, random_state=3)
    np.testing.assert_array_equal(drawn.x, same.x)
    np.testing.assert_array_equal(drawn.z, same.z)
    assert np.abs(drawn.x - world.sample(9, random_state=4).x).max() > 0.05
    assert np.abs(drawn.x - other.sample(9, random_state=3).x).max() > 0.05


@every
@pytest.mark.parametrize("wrong", [3.0, -1, True, "7"])
def test_a_seed_is_a_whole_number_of_any_type(make: Callable[..., Any], wrong: Any) -> None:
    world = make(random_state=3)
    np.testing.assert_array_equal(world.sample(4).x, make(random_state=np.int64(3)).sample(4).x)
    np.testing.assert_array_equal(world.sample(4, random_state=3).x, world.sample(4, random_state=np.uint8(3)).x)
    assert "must be a whole number of at least 0. Got " in refusal(make, random_state=wrong)
    assert "must be a whole number of at least 0. Got " in refusal(world.sample, 4, random_state=wrong)


@every
def test_a_sample_has_its_shapes_and_finite_numbers_in_double_precision(make: Callable[..., Any]) -> None:
    world = make(random_state=0)
    drawn = world.sample(7)
    assert (drawn.x.shape, drawn.z.shape) == ((7, world.n_observed), (7, world.n_latents))
    assert {type(drawn.x), type(drawn.z)} == {np.ndarray}
    assert drawn.x.dtype == drawn.z.dtype == np.float64
    assert np.isfinite(drawn.x).all()
    assert drawn.u is None or drawn.u.shape == (7,)
    assert "n must be a whole number of at least 1. Got 0." in refusal(world.sample, 0)


@smooth
def test_a_sample_is_its_latents_decoded_and_tensors_come_back_as_tensors(make: Callable[..., Any]) -> None:
    world = make(random_state=1)
    drawn = world.sample(50, random_state=2)
    np.testing.assert_allclose(drawn.x, world.decode(drawn.z), rtol=1e-12, atol=1e-12)
    z = torch.as_tensor(drawn.z)
    for given, found in ((world.decode(drawn.z), world.decode(z)), (world.jacobian(drawn.z), world.jacobian(z))):
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(found.numpy(), given, rtol=1e-12)
    if hasattr(world.decoder, "inverse"):
        np.testing.assert_allclose(world.decoder.inverse(torch.as_tensor(drawn.x)).numpy(), drawn.z, atol=1e-8)


@smooth
def test_the_jacobian_is_the_limit_of_differences(make: Callable[..., Any]) -> None:
    world, step = make(random_state=1), 1e-6
    z = world.sample(20, random_state=5).z
    sides = [(world.decode(z + move) - world.decode(z - move)) / (2 * step) for move in step * np.eye(z.shape[1])]
    J = world.jacobian(z)
    assert J.shape == (20, world.n_observed, world.n_latents)
    close = np.isclose(J, np.stack(sides, axis=-1), atol=1e-5, rtol=1e-5)
    assert close.mean() > 0.98  # a kink may lie between two points


@pytest.mark.parametrize("make", [make for name, make in WORLDS.items() if name not in ("structured", "slots")])
def test_a_world_survives_a_trip_to_another_process(make: Callable[..., Any]) -> None:
    world = make(random_state=2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(world)).sample(5).x, world.sample(5).x)


@smooth
def test_points_that_are_no_latents_are_refused(make: Callable[..., Any]) -> None:
    world = make(random_state=0)
    for door in (world.decode, world.jacobian):
        assert "z must have two axes" in refusal(door, np.ones(world.n_latents))
        assert "z must be finite" in refusal(door, np.full((3, world.n_latents), np.nan))


# ---- refusals ------------------------------------------------------------------------------------------------------

WHOLE = "must be a whole number of at least 1. Got 0."
BALLS, ROOMS = W.Balls(2, 8, images=10), W.Rooms(16)
RANDOM, BANDED = (f"must be given with the family {name} only. Got" for name in ("random", "banded"))
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: W.structured(Structure([[1, 1]])),
     "at least as many observations as latents. Got Structure(1 observed × 2"),
    (lambda: W.structured(PAIR, strength=-1.0), "strength must be a finite number in [0, inf]. Got -1.0."),
    (lambda: W.structured(PAIR, noise=-0.1), "noise must be a finite number in [0, inf]. Got -0.1."),
    (lambda: W.structured(PAIR, law=W.law("uniform", 3)), "The law must have 2 latents. Got 3."),
    (lambda: W.law("cauchy", 2), "law must be one of gaussian, "),
    (lambda: W.law("gaussian", 0), f"n_latents {WHOLE}"),
    (lambda: W.overlapping(0), f"n_slots {WHOLE}"),
    (lambda: W.overlapping(2, per_slot=2), "per_slot must be a whole number of at least 3"),
    (lambda: W.overlapping(2, overlap=1.5), "overlap must be a finite number in [0, 0.9]. Got 1.5."),
    (lambda: W.overlapping(12, slot_size=4, overlap=0.9), "at least as many observations as latents"),
    (lambda: W.overlapping(2, slot_size=1, per_slot=1, overlap=0.9),
     "Every slot must have an observation of its own. Got 1 of 1 shared."),
    (lambda: W.overlapping(2, law=W.law("laplace", 5)), "The law must have 6 latents. Got 5."),
    (lambda: W.overlapping(2, noise=-1.0), "noise must be"),
    # ---- families and graphs -----------------------------------------------------------------------------------
    (lambda: W.family("ring", 3), "family must be one of dense, banded, lack-one, triangular, random. Got 'ring'."),
    (lambda: W.family("dense", 0), f"n_latents {WHOLE}"),
    (lambda: W.family("dense", 2, 0), f"n_observed {WHOLE}"),
    (lambda: W.family("dense", 3, 2), "at least as many observations as latents. Got 2 and 3."),
    (lambda: W.family("banded", 3, width=4), "width must be between 1 and 3. Got 4."),
    (lambda: W.family("banded", 3, width=0), "width must be between 1 and 3. Got 0."),
    (lambda: W.family("lack-one", 1), "lack-one needs two latents or more. Got 1."),
    (lambda: W.family("random", 3, density=2.0), "density must be a finite number in [0, 1]. Got 2"),
    (lambda: W.family("triangular", 4, 8, gap=2), f"gap {RANDOM} triangular."),
    (lambda: W.family("dense", 4, 8, gap=0), f"gap {RANDOM} dense."),
    (lambda: W.family("banded", 4, 8, gap=3, density=0.9), f"gap {RANDOM} banded."),
    (lambda: W.family("lack-one", 4, 8, density=0.5), f"density {RANDOM} lack-one."),
    (lambda: W.family("random", 4, 8, width=3), f"width {BANDED} random."),
    (lambda: W.family("dense", 4, 8, width=2), f"width {BANDED} dense."),
    (lambda: W.Graph([[0, 1], [1, 0]]), "The graph must have no cycle. Got one in 2 nodes."),
    (lambda: W.Graph([[1.0]]), "The graph must have no cycle."),
    (lambda: W.Graph([[0, 1, 0], [0, 0, 0]]), "weights must be a square array, node by node. Got shape (2, 3)."),
    (lambda: W.Graph([[0, np.nan], [0, 0]]), "weights must be finite"),
    (lambda: W.random_graph(0, 1), f"n {WHOLE}"),
    (lambda: W.random_graph(3, -1), "edges_per_node must be a whole number of at least 0"),
    # ---- mixings and mixtures ------------------------------------------------------------------------------------
    (lambda: layered(3, 2, kind="cubic"),
     "mixing must be one of piecewise affine, smooth, sigmoid, affine. Got 'cubic'."),
    (lambda: layered(3, 2, kind="sigmoid", slope=0.2),
     "slope must be left out where no activation has one. Got 0.2 for a"),
    (lambda: layered(3, 2, slope=0.0), "slope must be a finite number in"),
    (lambda: layered(3, 2, slope=-0.2), "slope must be a finite number in"),
    (lambda: layered(3, 0), f"layers {WHOLE}"),
    (lambda: layered(0, 2), f"n {WHOLE}"),
    (lambda: W.hidden_variables([[1, 1]], sizes=(2, 2)), "sizes must have one entry for each of the 1 hidden"),
    (lambda: W.hidden_variables([[1, 1]], sizes=(1,)), "A size must be a whole number of at least 2"),
    (lambda: W.hidden_variables([1, 1]), "neighbourhoods must have two axes"),
    (lambda: W.hidden_variables([[1]], probabilities=[0.2, 0.2, 0.6]), "must have the shape (2,) of the states"),
    (lambda: W.hidden_variables([[1]], probabilities=[0.2, 0.2]), "weights must sum to one"),
    (lambda: W.non_degenerate(3, spread=-1.0), "spread must be a finite number"),
    (lambda: W.non_degenerate(3, components=0), f"components {WHOLE}"),
    (lambda: W.equal_distances(1), "n must be a whole number of at least 2"),
    (lambda: W.three_lines(stretch=0.0), "stretch must be a finite number in"),
    (lambda: W.mixed(np.eye(2)), "A mixture must be a Mixture or a fitted GaussianMixture"),
    (lambda: W.degenerate(5, active="most"), "active must be one of one, half, three quarters. Got 'most'."),
    (lambda: W.degenerate(5, active=6), "active must be at most 5, all of the latents or blocks. Got 6."),
    (lambda: W.degenerate(5, active=0), "active must be a whole number of at least 1"),
    (lambda: W.degenerate(5, active=3, blocks=(2, 3)), "active must be at most 2"),
    (lambda: W.degenerate(5, blocks=(2, 2)), "sizes of the slots must add up to 5 latents"),
    (lambda: W.degenerate(5, noise="cauchy"), "noise must be one of gaussian, exponential, gumbel"),
    (lambda: W.degenerate(5, means=-1.0), "means must be a finite number in"),
    (lambda: W.degenerate(5, shift=np.inf), "shift must be a finite number"),
    (lambda: W.degenerate(5, angle=np.nan), "angle must be a finite number"),
    (lambda: W.degenerate(5, edges=-1), "edges_per_node must be a whole number of at least 0"),
    (lambda: W.degenerate(5, mixing="cubic"), "mixing must be one of"),
    (lambda: W.pinwheel(0), f"clusters {WHOLE}"),
    (lambda: W.pinwheel(radial=-1.0), "radial must be a finite number"),
    (lambda: W.pinwheel(tangential=-0.1), "tangential must be a finite number"),
    (lambda: W.pinwheel(rate=np.nan), "rate must be a finite number"),
    # ---- images --------------------------------------------------------------------------------------------------
    (lambda: W.Balls(n_balls=7), "n_balls must be at most 6"),
    (lambda: W.Balls(n_balls=0), f"n_balls {WHOLE}"),
    (lambda: W.Balls(size=3), "size must be a whole number of at least 4"),
    (lambda: W.Balls(images=0), "images must be a whole number"),
    (lambda: W.Balls(freeze="x"), "freeze must be one of ball, coordinate"),
    (lambda: W.Balls(seed=-1), "seed must be a whole number of at least 0"),
    (lambda: W.Balls(frozen=1.5), "frozen must be a finite number in [0, 1]"),
    (lambda: W.Balls(colours=-1), "colours must be a whole number of at least 0"),
    *((lambda index=index: BALLS.pictures(np.array(index)), "Images must be numbered from 0 to 9")
      for index in ([10], [-1], [[0, 1]], [0.5])),
    (lambda: BALLS.render(np.zeros((1, 6))), "positions must have 4 columns. Got 6"),
    (lambda: ROOMS.render([[0, 0, 0, 0, 0]]), "whole numbers of 6 factors"),
    (lambda: ROOMS.render([[0, 0, 0, 0, 0.5, 0]]), "whole numbers of 6 factors"),
    (lambda: ROOMS.render([[10, 0, 0, 0, 0, 0]]), "must be below"),
    (lambda: ROOMS.render([[-1, 0, 0, 0, 0, 0]]), "must be below"),
    (lambda: ROOMS.render_values([[0.5] * 5]), "of 6 factors"),
    (lambda: ROOMS.render_values([[0.5] * 6]), "Shapes must be whole"),
    (lambda: ROOMS.render_values([[1.5, 0, 0, 0, 1, 0]]), "lie in [0, 1]"),
    (lambda: ROOMS.levels(np.array([480_000])), "numbered from 0 to 479999"),
    (lambda: ROOMS.levels([0.5]), "numbered from 0"),
    (lambda: ROOMS.sample(0), "n must be"),
    (lambda: W.Rooms(2), "size must be"),
    *((lambda make=make, device=device: make(device).pictures(np.arange(2)),
       f"device must be a torch device of this machine. Got '{device}'")
      for device in ("cuda:99",
      "nowhere") for make in (lambda d: W.Rooms(8, device=d), lambda d: W.Balls(2, 8, images=4, device=d))),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentence"), ids(REFUSED))
def test_what_no_world_can_be_made_of_is_refused(call: Callable[[], object], sentence: str) -> None:
    assert sentence in refusal(call)
