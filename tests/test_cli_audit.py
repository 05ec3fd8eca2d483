"""``noumena audit``: what it says and writes, and that bad input is one sentence and exit code 2."""

import json

import numpy as np
import pytest
from command_runs import here as here
from scipy.stats import ortho_group

N = 300
Z = np.random.default_rng(0).laplace(size=(N, 3))


@pytest.fixture
def noumena(here):
    """The command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        done = here("audit", *arguments)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", Z)
    np.savetxt("b.csv", Z @ ortho_group.rvs(3, random_state=0), delimiter=",")
    np.savez("c.npz", z=-Z, other=Z[:5])
    np.save("short.npy", Z[:-1])
    np.save("nan.npy", np.where(np.arange(N)[:, None] == 7, np.nan, Z))
    (tmp_path / "groups.csv").write_text("molecule\n" + "\n".join(f"m{k % 7}" for k in range(N)))
    np.save("groups.npy", np.arange(N) % 3)
    (tmp_path / "few.csv").write_text("molecule\n" + "\n".join(f"m{k % 7}" for k in range(N - 2)))
    (tmp_path / "index.csv").write_text(",a\n" + "\n".join(f"{k},{k % 7}.5" for k in range(N)))
    (tmp_path / "words.csv").write_text("cell,a\n" + "\n".join(f"c{k},{k % 7}.5" for k in range(N)))
    (tmp_path / "code.csv").write_text("a,b\n?,1.5\n" + "\n".join(f"{k},{k % 7}.5" for k in range(N - 1)))
    (tmp_path / "one.csv").write_text("\n".join(["m"] * N))
    (tmp_path / "two.csv").write_text("\n".join(["m,n"] * N))
    (tmp_path / "hole.csv").write_text("\n".join(['"m"', '""'] * (N // 2)))
    return tmp_path


def test_files_of_all_kinds_are_compared(folder, noumena):
    code, out, _ = noumena("a.npy", "b.csv", "c.npz", "--key", "z", "--folds", 2)
    assert code == 0
    assert "Stable up to rigid motions with one scale" in out
    assert "Consistency across runs is not correctness" in out


def test_json_holds_the_names_of_the_files_and_the_verdict(folder, noumena):
    _, out, _ = noumena("a.npy", "b.csv", "--json", "--groups", "groups.csv", "--input", "a.npy", "--folds", 2)
    found = json.loads(out)
    assert found["names"] == ["a", "b"]
    assert found["up_to"] == "rigid+scale"
    assert found["trivial"]["r2"] == pytest.approx([1, 1], abs=1e-4)
    _, out, _ = noumena("a.npy", "b.csv", "--json", "--groups", "groups.npy")
    assert json.loads(out)["folds"] == 3
    assert "ICA" in json.loads(out)["errors"]
    _, out, _ = noumena("a.npy", "b.csv", "--json", "--in-sample", "--no-ica")
    assert json.loads(out)["held_out"] is False
    assert "ICA" not in json.loads(out)["errors"]


def test_a_folder_gets_the_numbers_and_the_page_and_is_not_overwritten(folder, noumena):
    code, out, _ = noumena("a.npy", "b.csv", "--out", "audits/first", "--folds", 2)
    assert code == 0
    assert "audits/first" in out
    assert sorted(path.name for path in (folder / "audits/first").iterdir()) == ["audit.json", "report.html"]
    stored = (folder / "audits/first/audit.json").read_text()
    assert json.loads(stored)["up_to"] == "rigid+scale"
    assert "Consistency across runs" in (folder / "audits/first/report.html").read_text()
    code, _, err = noumena("a.npy", "c.npz", "--key", "z", "--out", "audits/first", "--folds", 2)
    assert code == 2
    assert "--out must be a new or empty folder" in err
    assert (folder / "audits/first/audit.json").read_text() == stored
    code, _, _ = noumena("a.npy", "c.npz", "--key", "z", "--out", "audits/first", "--folds", 2, "--force")
    assert code == 0
    assert json.loads((folder / "audits/first/audit.json").read_text())["up_to"] == "signed permutation"


def test_files_of_one_name_are_told_apart_by_their_folders(folder, noumena):
    (folder / "other").mkdir()
    np.save("other/a.npy", -Z)
    _, out, _ = noumena("a.npy", "other/a.npy", "--json", "--folds", 2)
    assert json.loads(out)["names"] == ["a.npy", "other/a.npy"]


def test_columns_are_taken_or_left_out_of_every_file(folder, noumena):
    for name, z in (("first", Z), ("second", -Z)):
        np.savetxt(f"{name}.csv", np.c_[np.arange(N), z], delimiter=",", header="id,a,b,c", comments="")
    _, plain, _ = noumena("a.npy", "c.npz", "--key", "z", "--folds", 2, "--no-ica", "--json")
    for chosen in (["--drop", "id"], ["--columns", "a,b,c"], ["--columns", "1,2,3"]):
        code, out, _ = noumena("first.csv", "second.csv", *chosen, "--folds", 2, "--no-ica", "--json")
        assert code == 0
        assert (
            json.loads(out)["pairs"] == json.loads(plain.replace('"a"', '"first"').replace('"c"', '"second"'))["pairs"]
        )
    code, _, err = noumena("first.csv", "second.csv", "--drop", "name")
    assert code == 2
    assert "Columns to leave out of first.csv must be names, or numbers from 0 to 3. Got 'name'" in err
