"""``noumena score``: what it says and writes, and that bad input is one sentence and exit code 2."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import here as here

N = 200
Z = np.random.default_rng(0).uniform(-1, 1, size=(N, 2))


@pytest.fixture
def noumena(here):
    """The command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        done = here("score", *arguments)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("z.npy", Z)
    np.save("learned.npy", -Z[:, ::-1])
    np.save("short.npy", Z[:-1])
    np.save("nan.npy", np.where(np.arange(N)[:, None] == 7, np.nan, Z))
    shape = np.where(Z[:, 0] > 0, "cube", "ball")
    Path("factors.csv").write_text(
        "\n".join(["shape,size", *(f"{s},{z}" for s, z in zip(shape, Z[:, 1], strict=True))])
    )
    np.savetxt("named.csv", Z, delimiter=",", header="first,second", comments="")
    return tmp_path


def test_two_files_become_one_table_one_page_and_one_json(folder: Path, noumena: Any) -> None:
    code, out, _ = noumena("z.npy", "learned.npy", "--out", "scores")
    assert code == 0
    assert "every true latent was found up to order and scale" in out
    assert all(name in out for name in ("MCC", "InfoM", "FactorVAE"))
    page = Path("scores/report.html").read_text()
    assert "Which latent predicts which factor" in page
    assert json.loads(Path("scores/scores.json").read_text())["scores"]["mcc"]["permutation"] == [1, 0]


def test_json_is_what_the_file_holds(folder: Path, noumena: Any) -> None:
    code, out, _ = noumena("z.npy", "learned.npy", "--metrics", "mcc, r2", "--json", "--out", "scores")
    assert code == 0
    assert json.loads(out) == json.loads(Path("scores/scores.json").read_text())
    assert list(json.loads(out)["scores"]) == ["mcc", "r2"]


def test_words_and_headers_are_read(folder: Path, noumena: Any) -> None:
    code, out, _ = noumena("factors.csv", "named.csv", "--metrics", "mcc,infomec", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["factors"] == ["shape", "size"]
    assert found["latents"] == ["first", "second"]
    assert "detected by their values): discrete shape; continuous size" in found["kinds"]


def test_kinds_can_be_declared_by_name_and_number(folder: Path, noumena: Any) -> None:
    np.save("whole.npy", np.round(2 * Z))
    for told, kinds in (
        ("0", "discrete z1; continuous z2"),
        ("z2", "discrete z2; continuous z1"),
        ("none", "continuous z1, z2"),
        ("all", "discrete z1, z2"),
    ):
        _, out, _ = noumena("whole.npy", "z.npy", "--metrics", "infomec", "--discrete", told, "--json")
        assert json.loads(out)["kinds"] == f"Factors (declared): {kinds}"


def test_slots_rows_bootstrap_and_no_ceiling_are_passed_on(folder: Path, noumena: Any) -> None:
    arguments = ("--slots", "1,1", "--rows", 50, "--subsamples", 10, "--no-ceiling", "--json")
    _, out, _ = noumena("z.npy", "learned.npy", "--metrics", "sis,mcc", *arguments)
    found = json.loads(out)
    assert found["rows"] == 50
    assert found["scores"]["mcc"]["ceiling"] is None
    assert found["scores"]["mcc"]["uncertainty"]["draws"] == 10
    assert len(found["scores"]["sis"]["per_slot"]) == 2
    assert json.loads(noumena("z.npy", "learned.npy", "--metrics", "mcc", "--rows", 0, "--json")[1])["rows"] == N


def test_factors_and_latents_are_columns_of_their_files(folder: Path, noumena: Any) -> None:
    z = np.load("z.npy")
    np.savetxt("wide.csv", np.c_[np.arange(len(z)), z], delimiter=",", header="id,a,b", comments="")
    few = ["--metrics", "mcc", "--json"]
    plain = json.loads(noumena("z.npy", "learned.npy", *few)[1])
    chosen = json.loads(noumena("wide.csv", "learned.npy", "--factors", "a,b", *few)[1])
    assert chosen["scores"]["mcc"]["score"] == pytest.approx(plain["scores"]["mcc"]["score"])
    one = json.loads(noumena("z.npy", "wide.csv", "--latents", "1,2", *few)[1])
    assert one["scores"]["mcc"]["score"] == pytest.approx(1)


def test_a_name_goes_before_a_number(folder: Path, noumena: Any) -> None:
    whole = np.c_[Z[:, 0], np.arange(N) % 3, np.arange(N) % 4]
    np.savetxt("numbered.csv", whole, delimiter=",", header="1,2,3", comments="")
    found = json.loads(noumena("numbered.csv", "z.npy", "--discrete", "2", "--metrics", "mcc", "--json")[1])
    assert "discrete 2; continuous 1, 3" in found["kinds"]
    assert "A list must have names or numbers" in noumena("numbered.csv", "z.npy", "--discrete", ",")[2]


def test_a_folder_with_something_in_it_is_kept(folder: Path, noumena: Any) -> None:
    Path("scores").mkdir()
    Path("scores/mine.txt").write_text("mine")
    code, _, err = noumena("z.npy", "learned.npy", "--metrics", "mcc", "--out", "scores")
    assert code == 2
    assert "--force" in err
    assert [p.name for p in Path("scores").iterdir()] == ["mine.txt"]
    assert noumena("z.npy", "learned.npy", "--metrics", "mcc", "--out", "scores", "--force")[0] == 0
    assert Path("scores/mine.txt").read_text() == "mine"
