"""What the command cannot use is one sentence and exit code 2, from every verb, and nothing is written."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_runs import assert_refused
from command_runs import here as here

N = 200
Z = np.random.default_rng(0).uniform(-1, 1, size=(N, 2))
X = np.random.default_rng(0).normal(size=(N, 3))
FIT = ["--latents", "2", "--models", "1", "--steps", "4", "--batch-size", "16"]
PLATES = ["deconfound", "profiles.csv", "--batch", "plate", "--label", "drug"]
OWN = ["deconfound", "own.csv", "--batch", "plate", "--label", "drug"]
NAMES = "columns id, pulse, voice, x 3, batch, site."

STRUCTURES: dict[str, str | bytes] = {
    "nested": ",age,mood\npulse,1,1\nvoice,0,1\ngait,0,1\nsleep,0,1\n",
    "empty column": ",z1,z2\nx1,1,0\nx2,1,0\n",
    "latents twice": ",z1,z1\nx1,1,0\nx2,1,1\n",
    "observations twice": ",z1,z2\nx1,1,0\nx1,1,1\n",
    "other words": ",z1,z2\nx1,1,yes\n",
    "header": ",z1,z2\n",
    "binary": b"\xff\xfe\x00\x01",
    "endless": ',z1\nx1,1\n"' + "y" * 200_000 + "\n",
    "two lines": ',z1\n"x\n1",2\n',
}
ARRAYS: dict[str, np.ndarray] = {
    "x": X, "z": Z, "learned": -Z[:, ::-1], "short": Z[:-1], "nan": np.where(np.arange(N)[:, None] == 7, np.nan, Z),
    "inf": np.where(np.arange(N)[:, None] == 7, np.inf, Z), "vector": X[:, 0], "cube": X[None], "none": X[:0],
    "few": X[:1], "two": X[:2], "three": X[:3], "constant": np.c_[X, np.ones(N)],
    "object": np.array([[1, "a"], [None, 2]], dtype=object),
    "table": np.zeros((5, 4)), "two channels": np.zeros((5, 2, 8, 8), np.uint8), "light": np.full((5, 3, 8, 8), 200.0),
    "oblong": np.zeros((5, 3, 8, 12), np.uint8), "odd": np.zeros((5, 3, 7, 7), np.uint8),
    "dark": np.full((5, 3, 8, 8), -0.5),
    "tiny": np.zeros((5, 3, 4, 4), np.uint8), "whole numbers": np.zeros((5, 3, 8, 8), np.int64),
    "empty": np.zeros((0, 3, 8, 8)),
    "one image": np.zeros((1, 3, 8, 8), np.uint8), "images": np.zeros((5, 3, 8, 8), np.uint8),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tables, images, labels and structures, few of them sound."""
    folder = tmp_path_factory.mktemp("files")
    for name, content in STRUCTURES.items():
        (folder / f"{name}.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, array in ARRAYS.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=True)
    for name in ("images", "x"):
        (folder / f"torn {name}.npy").write_bytes((folder / f"{name}.npy").read_bytes()[:500])
    np.savez(folder / "two.npz", a=Z, b=Z)
    (folder / "torn.npz").write_bytes((folder / "two.npz").read_bytes()[:600])
    pd.DataFrame(X, columns=list("abc")).to_parquet(folder / "x.parquet")
    (folder / "torn.parquet").write_bytes((folder / "x.parquet").read_bytes()[:200])
    (folder / "nothing").mkdir()
    messy = pd.DataFrame(X[:40], columns=["pulse", "voice", "x 3"]).assign(batch=["A", "B"] * 20, site=7)
    messy.insert(0, "id", [f"p{k}" for k in range(40)])
    messy.loc[[1, 4], "pulse"] = np.nan
    messy.to_csv(folder / "messy.csv", index=False)
    drug = np.where(X[:120, 0] > 0, "bortezomib", "DMSO")
    profiles = pd.DataFrame(X[:120], columns=["Cells_a", "Cells_b", "Nuclei_a"]).assign(drug=drug)
    profiles["plate"], profiles["tied"] = np.repeat(["P1", "P2", "P3"], 40), np.repeat(["u", "v", "v"], 40)
    profiles.to_csv(folder / "profiles.csv", index=False)
    texts: dict[str, list[str]] = {
        "ragged": ["a,b", "1,2", "3", "4,5"], "words": ["a,b", "1,2", "3,four"], "plain": ["1,2"],
        "factors": ["shape,size", *("cube,1" if z > 0 else "ball,2" for z in Z[:, 0])],
        "scarce": ["molecule", *(f"m{k % 7}" for k in range(N - 2))], "same": ["m"] * N, "pair": ["m,n"] * N,
        "hole": ['"m"', '""'] * (N // 2), "index": [",a", *(f"{k},{k % 7}.5" for k in range(N))],
        "code": ["a,b", "?,1.5", *(f"{k},{k % 7}.5" for k in range(N - 1))],
        "shifted": ["molecule", *("" if k == 30 else f"m{k % 7}" for k in range(N))],
        "longer": [f"m{k % 7}" for k in range(N + 1)],
        "missing": ["m", *("NA" if k == 4 else f"m{k % 7}" for k in range(N))],
    }  # fmt: skip
    for name, lines in texts.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "plain.csv").rename(folder / "notes.txt")
    np.save(folder / "labels.npy", np.array([{"m": 1}] * N, dtype=object), allow_pickle=True)
    return folder


REFUSED: list[tuple[list[Any], str]] = [
    # ---- fit: files --------------------------------------------------------------------------------------------
    (["fit", "nan.npy", *FIT], "nan.npy must have no missing cells"),
    (["fit", "inf.npy", *FIT], "inf.npy must hold finite numbers"),
    (["fit", "vector.npy", *FIT], "vector.npy must have two axes"),
    (["fit", "cube.npy", *FIT], "cube.npy must have two axes"),
    (["fit", "none.npy", *FIT], "none.npy must have at least"),
    (["fit", "few.npy", *FIT], "few.npy must have at least"),
    (["fit", "two.npy", *FIT], "two.npy must have at least 4 rows to learn from. Got 2."),
    (["fit", "three.npy", *FIT], "three.npy must have at least 4 rows to learn from. Got 3."),
    (["fit", "constant.npy", *FIT], "Every column of constant.npy must vary"),
    (["fit", "object.npy", *FIT], "object.npy must be a complete .npy file"),
    (["fit", "ragged.csv", *FIT], "Every line of ragged.csv must have 2 cells"),
    (["fit", "words.csv", *FIT], "Column 'b' of words.csv must hold numbers only"),
    (["fit", "torn.npz", *FIT], "torn.npz must be a complete .npz file"),
    (["fit", "torn.parquet", *FIT], "torn.parquet must be a complete .parquet file"),
    (["fit", "notes.txt", *FIT], "The ending of notes.txt must be one of"),
    (["fit", "gone.npy", *FIT], "The data file must exist"),
    (["fit", "nothing", *FIT], "Data must be a file, or a folder of pictures with --image."),
    # ---- fit: options ------------------------------------------------------------------------------------------
    (["fit", "x.npy", "--latents", "0"], "--latents must be a whole number of at least 1. Got 0."),
    (["fit", "x.npy", "--latents", "400"],
     "x must have at least as many rows as latents. Got 200 rows and 400 latents."),
    (["fit", "x.npy", "--latents", "2", "--estimator", "oracle"],
     "--estimator must be one of vae, beta-vae, autoencoder. Got 'oracle'."),
    (["fit", "x.npy", "--latents", "2", "--models", "0"], "--models must be a whole number of at least 1. Got 0."),
    (["fit", "x.npy", "--latents", "2", "--steps", "0"], "steps must be a whole number of at least 1. Got 0."),
    (["fit", "x.npy", "--latents", "2", "--sparsity", "-1"],
     "--sparsity must be a finite number in [0, inf]. Got -1.0."),
    (["fit", "x.npy", "--latents", "2", "--learning-rate", "nan"],
     "learning_rate must be a finite number in [1e-12, inf]. Got nan."),
    (["fit", "x.npy", "--latents", "2", "--seed", "-1"], "--seed must be a whole number of at least 0. Got -1."),
    (["fit", "x.npy", "--latents", "2", "--resume"], "--resume needs the folder of an interrupted run"),
    *((["fit", "x.npy", *FIT, "--device", device],
       f"--device must be cpu, cuda or auto, or another that torch can use on this machine. Got {device!r}.")
      for device in ("mps", "xpu", "meta", "abacus")),
    (["fit", "messy.csv", *FIT, "--drop", "id,batch", "--impute", "zero"],
     "--impute must be one of mean, median, drop-rows, drop-columns. Got 'zero'."),
    (["fit", "messy.csv", *FIT, "--columns", ","], "A list must have names or numbers with commas. Got ','."),
    (["fit", "messy.csv", *FIT, "--columns", "pulse,pulse"],
     "Columns to take from messy.csv must be named once. Got 'pulse' twice."),
    (["fit", "messy.csv", *FIT, "--columns", "puls"],
     f"Columns to take from messy.csv must be names, or numbers from 0 to 5. Got 'puls' where there are {NAMES}"),
    (["fit", "messy.csv", *FIT, "--drop", "6"],
     f"Columns to leave out of messy.csv must be names, or numbers from 0 to 5. Got '6' where there are {NAMES}"),
    (["fit", "messy.csv", *FIT, "--columns", "1", "--drop", "1"],
     "Some columns of messy.csv must be kept. Got 6 columns, 1 of them left out."),
    (["fit", "messy.csv", *FIT, "--image", "--drop", "id", "--impute", "mean"],
     "Options on columns must come without --image. Got --drop, --impute."),
    (["fit", "messy.csv", *FIT, "--image", "--no-header"],
     "Options on columns must come without --image. Got --header."),
    # ---- fit: images -------------------------------------------------------------------------------------------
    *((["fit", f"{name}.npy", "--image", *FIT], sentence) for name, sentence in {
        "table": "or (image, height, width, channel), 1 or 3 channels. Got shape (5, 4)",
        "two channels": "1 or 3 channels. Got shape (5, 2, 8, 8)",
        "oblong": "Images must be squares with an even side above 4. Got 8 × 12 pixels",
        "odd": "Got 7 × 7 pixels",
        "tiny": "Got 4 × 4 pixels",
        "light": "Images must be bytes, or numbers in [0, 1]. Got numbers from 200 to 200",
        "dark": "Got numbers from -0.5 to -0.5",
        "whole numbers": "Images must be bytes, or numbers in [0, 1]. Got dtype int64",
        "empty": "Images must be bytes",
        "one image": "one image.npy must have at least 4 pictures to learn from. Got 1.",
        "torn images": "must be a complete .npy file of images",
        "object": "must be a complete .npy file of images",
        "gone": "The images must be a file or a folder that exists",
    }.items()),
    (["fit", "two.npz", "--image", *FIT], "must hold one array, or --key must name one. Got arrays a, b and key None"),
    (["fit", "words.csv", "--image", *FIT], "Images must be a .npy or .npz file, or a folder. Got words.csv"),
    (["fit", "nothing", "--image", *FIT], "A folder must hold images"),
    (["fit", "images.npy", "--image", *FIT, "--key", "x"], "--key must come with a .npz file. Got "),
    # ---- certify -----------------------------------------------------------------------------------------------
    *((["certify", f"{name}.csv"], sentence) for name, sentence in {
        "empty column": "Every latent must touch at least one observation. Got none for z2",
        "latents twice": "Names of latent variables must differ. Got z1 twice",
        "observations twice": "Names of observed variables must differ. Got x1 twice",
        "other words": "Every row of other words.csv must have a name and 2 entries 0 or 1. Got line 2: x1,1,yes.",
        "header": "A structure file needs a header and one row", "binary": "must be text in UTF-8",
        "endless": "The structure file must be text in UTF-8. Got endless.csv.",
        "two lines": "must have a name and 1 entries 0 or 1. Got line 2: x 1,2.",
    }.items()),
    (["certify", "gone.csv"], "The subject must be a run's folder or a structure's file. Got gone.csv"),
    (["certify", "nothing"], "A run must be a folder with a config.json"),
    (["certify", "nested.csv", "--query", "pulse", "--query", "pulse & breath"], "Got 'breath' at character 9"),
    (["certify", "nested.csv", "--query", "(pulse & voice"], "the end where ')' was expected at character 15"),
    (["certify", "nested.csv", "--query", ""], "the end where a name was expected at character 1"),
    (["certify", "nested.csv", "--threshold", "0.1"], "--threshold is for a run"),
    # ---- score -------------------------------------------------------------------------------------------------
    (["score", "z.npy", "short.npy"], "share their batch axis"),
    (["score", "z.npy", "nan.npy"], "must be finite"),
    (["score", "z.npy", "gone.npy"], "must exist"),
    (["score", "z.npy", "factors.csv"], "Column 'shape' of factors.csv must hold numbers only. Got words, such as "),
    (["score", "z.npy", "factors.csv"], "; take others with --latents."),
    (["score", "z.npy", "factors.csv", "--latents", "size", "--key", "z"],
     "--key must come with a file that may hold several arrays. Got z.npy, factors.csv."),
    (["score", "z.npy", "z.npy", "--factors", "9"],
     "Columns to take from z.npy must be names, or numbers from 0 to 1. Got '9'"),
    (["score", "z.npy", "z.npy", "--metrics", "fid"], "metrics must be one of"),
    (["score", "z.npy", "z.npy", "--metrics", ","], "must name a score"),
    (["score", "z.npy", "z.npy", "--slots", "two"], "--slots must be whole numbers"),
    (["score", "z.npy", "z.npy", "--discrete", "colour"], "names of columns"),
    (["score", "z.npy", "z.npy", "--rows", "-1"], "--rows must be a whole number"),
    (["score", "z.npy", "z.npy", "--seed", "-1"], "--seed must be a whole number"),
    # ---- audit -------------------------------------------------------------------------------------------------
    (["audit", "z.npy"], "two or more files. Got 1"),
    (["audit", "z.npy", "z.npy"], "different files. Got z.npy, z.npy"),
    (["audit", "short.npy", "short.npy", "z.npy"], "different files"),
    (["audit", "z.npy", "gone.npy"], "The data file must exist. Got gone.npy"),
    (["audit", "z.npy", "short.npy"], f"same rows, but z has {N}. Got {N - 1} in short"),
    (["audit", "z.npy", "nan.npy"], "nan.npy must be finite. Got 2 NaN and 0 inf entries, the first at row 7"),
    *((["audit", "z.npy", "learned.npy", "--groups", name], sentence) for name, sentence in {
        "gone.csv": "The groups must be a file. Got gone.csv",
        "two.npz": "The ending of two.npz must be one of .csv, .npy",
        "same.csv": "two groups or more. Got m throughout",
        "pair.csv": "pair.csv must have one column. Got 2 cells in line 1",
        "hole.csv": "Every row of hole.csv must have a label. Got none in row 1",
        "scarce.csv": f"scarce.csv must have a label for each of {N} rows, and may have a header. Got {N - 1} lines",
        "shifted.csv": "none in row 30",
        "longer.csv": f"Got {N + 1} lines",
        "missing.csv": "none in row 4",
        "labels.npy": "labels.npy must be a complete .npy file of labels",
    }.items()),
    (["audit", "z.npy", "index.csv"],
     "Every column of index.csv must have a name. Got none for column 0, an index perhaps; "
     "leave it out with --drop 0."),
    (["audit", "z.npy", "factors.csv"], "; leave it out with --drop shape."),
    (["audit", "z.npy", "code.csv"], "Got words, such as '?' on line 2; leave it out with --drop a."),
    (["audit", "z.npy", "learned.npy", "--key", "z"],
     "--key must come with a file that may hold several arrays. Got z.npy, learned.npy."),
    (["audit", "z.npy", "learned.npy", "--input", "short.npy"],
     f"input must have the {N} rows of the representations. Got {N - 1}"),
    (["audit", "z.npy", "learned.npy", "--folds", "1"], "folds must be a whole number of at least 2"),
    (["audit", "z.npy", "learned.npy", "--seed", "-1"], "--seed must be a whole number of at least 0"),
    (["audit", "z.npy", "learned.npy", "--drop", "name"],
     "Columns to leave out of z.npy must be names, or numbers from 0 to 1. Got 'name'"),
    # ---- deconfound --------------------------------------------------------------------------------------------
    (["deconfound", "profiles.csv", "--batch", "plate", "--label", "tied"], "label and batch must not be confounded"),
    (["deconfound", "profiles.csv", "--batch", "tied", "--label", "plate"], "must not be confounded"),
    (["deconfound", "profiles.csv", "--batch", "batch", "--label", "drug"],
     "profiles.csv must hold the annotation batch. Got "),
    ([*PLATES, "--positive", "x"], "positive must be a level of label"),
    ([*PLATES, "--features", "Mito"], "Every name of --features must be, or begin,"),
    ([*PLATES, "--folds", "1"], "folds must be a whole number of at least 2"),
    ([*PLATES, "--leaf", "0"], "--leaf must be a whole number of at least 1"),
    ([*PLATES, "--seed", "-1"], "--seed must be a whole number"),
    ([*PLATES, "--impute", "zero"], "--impute must be one of mean, median, drop-row"),
    ([*PLATES, "--sep", "ab"], "--sep must be one character, or tab. Got 'ab'."),
    # ---- report, demo ------------------------------------------------------------------------------------------
    (["report", "nothing"], "A run must be a folder with a config.json"),
    (["demo", "--out", "."], "--out must be a new or empty folder"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "sentence"), [pytest.param(*row, id=" ".join(map(str, row[0]))[:70]) for row in REFUSED]
)
def test_what_a_verb_cannot_use_is_one_sentence_and_exit_code_2(
    arguments: list[Any], sentence: str, files: Path, here: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(files)
    out = [] if arguments[0] in ("report", "demo") else ["--out", tmp_path / "out"]
    done = here(*arguments, *out)
    said = assert_refused(done)
    assert sentence in said
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a;plate;drug\n1;P1;x\n", "Columns of own.csv must be separated by commas, or as --sep says. Got ';'"),
        ("a\tplate\tdrug\n1\tP1\tx\n",
         "must be separated by commas, or as --sep says. Got a tab in the first line."),
        ("a,a,plate,drug\n1,2,P1,x\n", "The columns of own.csv must have different names. Got a twice."),
        ("a,b,plate,drug\n1,2,P1,x\n,2,P1,y\n3,,P2,x\n,inf,P2,y\n",
         "own.csv must have no missing or infinite cells in its features. Got 4 in columns 'a' (2), 'b' (2), the first "
         "at row 1 of column 'a'; fill missing ones with --impute, or choose other columns with --features."),
        ("größe,plate,drug\n1,P1,x\n".encode("latin-1"), "Got text that is not UTF-8; save it as UTF-8."),
    ],
)  # fmt: skip
def test_annotated_tables_are_refused_by_their_file_and_columns(
    text: str | bytes, sentence: str, here: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert sentence in assert_refused(here(*OWN))
