"""The picture of balls: dots where balls are, lines to where they are found."""

from __future__ import annotations

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.worlds.balls import COLOURS
from pdgmm import ball_picture as study


def test_a_found_ball_is_a_dot_and_a_lost_one_a_line() -> None:
    true = np.array([[[0.2, 0.3], [0.7, 0.6]]])
    exact = study.panel(true, true, 40)
    assert {tuple(c) for c in exact.reshape(3, -1).T.tolist()} == {(255, 255, 255), *COLOURS[:2]}
    assert tuple(exact[:, 12, 8]) == COLOURS[0]
    assert tuple(exact[:, 24, 28]) == COLOURS[1]
    lost = study.panel(true, true + np.array([[[0.0, 0.4], [0.0, 0.0]]]), 40)
    column = (lost[:, :, 8] != 255).any(axis=0)
    assert column[11:29].all()
    assert not column[29:].any()
    assert tuple(lost[:, 20, 8]) == tuple((c + 510) // 3 for c in COLOURS[0])


def test_places_outside_end_at_the_rim() -> None:
    edge = study.panel(np.array([[[1.2, -0.1]]]), np.array([[[1.2, -0.1]]]), 10)
    assert tuple(edge[:, 0, 9]) == COLOURS[0]


def test_every_world_is_a_row_and_what_was_refused_is_empty(tmp_path, capsys) -> None:
    z = np.random.default_rng(0).random((50, 4))
    for world in study.WORLDS:
        np.savez(tmp_path / f"{world}.npz", z=z, places=2 * z[:, ::-1] + 1)
    study.main(["--codes", str(tmp_path), "--out", str(tmp_path / "new" / "picture.png")])
    assert "picture.png" in capsys.readouterr().out
    sheet = study.drawn(tmp_path)
    assert sheet.shape == (2 * study.SIZE + 4, 3 * study.SIZE + 8, 3)
    assert (sheet[:, study.SIZE :] == 255).all()
    pale = [tuple((c + 510) // 3 for c in colour) for colour in COLOURS[:2]]
    seen = {tuple(c) for c in sheet.reshape(-1, 3).tolist()}
    assert set(COLOURS[:2]) < seen
    assert not seen & set(pale)


def test_a_folder_without_codes_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"The folder of codes must hold 2-ball-0\.npz"):
        study.drawn(tmp_path)
