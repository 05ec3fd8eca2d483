"""Files of others are data: nothing in them is run, nothing leaves the machine, and the same input gives the same
output in every process."""

import ast
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import noumena as nm
from noumena.audits.folds import read_labels
from noumena.checks import InputError
from noumena.cli.images import read_images
from noumena.data import archives
from noumena.data.annotated import read_annotated
from noumena.data.folders import folder as picture_folder
from noumena.data.tables import read_table
from noumena.estimators.checkpoint import Checkpoint

SOURCES = sorted((Path(nm.__file__).parent).rglob("*.py"))


# ---- the source ----------------------------------------------------------------------------------------------------


FORBIDDEN_MODULES = {
    "pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "urllib", "http", "requests",
    "httpx", "aiohttp", "ftplib", "smtplib", "telnetlib", "ssl", "xmlrpc", "code", "codeop", "runpy",
}  # fmt: skip
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_CALLS = {
    "os.system", "os.popen", "pd.read_pickle", "pandas.read_pickle", "joblib.load", "torch.hub.load", "torch.jit.load",
    "shutil.unpack_archive", "torch.package.PackageImporter",
}  # fmt: skip
FORBIDDEN_METHODS = {"extractall", "extract", "read_pickle", "load_state_dict_from_url"}
LOADS = {
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
    "torch.load": ("weights_only", True),
}


def violations(source: str) -> list[str]:
    """What a source does that could run something of a file, unpack one anywhere, or reach the network."""
    return [found for node in ast.walk(ast.parse(source)) for found in (*_imports(node), *_calls(node))]


def _imports(node: ast.AST) -> Iterator[str]:
    named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    yield from (f"import {name}" for name in named if name.split(".")[0] in FORBIDDEN_MODULES)


def _calls(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    name = ast.unparse(node.func)
    given = {word.arg: word.value for word in node.keywords}
    if name in FORBIDDEN_NAMES | FORBIDDEN_CALLS or ("." in name and name.rsplit(".")[-1] in FORBIDDEN_METHODS):
        yield name
    if name in LOADS:
        word, must = LOADS[name]
        value = given.get(word)
        if not isinstance(value, ast.Constant) or value.value is not must:
            yield f"{name} without {word}={must}"
    if isinstance(given.get("allow_pickle"), ast.Constant) and ast.unparse(given["allow_pickle"]) != "False":
        yield f"{name} with allow_pickle"
    if "trust_remote_code" in given and ast.unparse(given["trust_remote_code"]) != "False":
        yield f"{name} with code from elsewhere"
    if "shell" in given and ast.unparse(given["shell"]) != "False":
        yield f"{name} with a shell"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_no_source_unpickles_evaluates_unpacks_or_fetches(path: Path) -> None:
    assert violations(path.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle", "from pickle import loads", "import yaml", "import urllib.request", "from http import client",
        "eval('1')", "exec(text)", "compile(text, '', 'exec')", "np.load(path)", "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)", "torch.load(path)", "torch.load(path, weights_only=False)",
        "zipfile.ZipFile(p).extractall()", "tar.extract(m)", "pd.read_pickle(p)", "joblib.load(p)", "os.system(text)",
        "subprocess.run(text, shell=True)", "AutoModel.from_pretrained(n, trust_remote_code=True)",
        "np.save(p, x, allow_pickle=True)",
    ],
)  # fmt: skip
def test_a_planted_violation_is_found(planted: str) -> None:
    assert len(violations(f"def f():\n    {planted}\n")) >= 1


def test_harmless_lines_are_no_violation() -> None:
    assert (
        violations("np.load(p, allow_pickle=False)\ntorch.load(p, weights_only=True)\nmodel.eval()\nre.compile('a')")
        == []
    )


# ---- pickles in files ----------------------------------------------------------------------------------------------


class Trap:
    """Unpickling this would create a folder."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


def _npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def _bytes(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _loaded_run(path: Path) -> Any:
    nm.save(
        nm.VAE(1, training=nm.Training(steps=2), n_models=1, random_state=0).fit(np.eye(9)[:, :3]), path.parent / "run"
    )
    (path.parent / "run" / "weights.safetensors").write_bytes(path.read_bytes())
    return nm.load(path.parent / "run")


DOORS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "table .npy": (".npy", read_table),
    "mapped table": (".npy", lambda path: read_table(path, mmap=True)),
    "table .npz": (".npz", lambda path: read_table(path, key="X")),
    "table .npz with words": (".npz", lambda path: read_table(path, key="X", words=True)),
    "annotated table": (".npz", lambda path: read_annotated(path, ["y"])),
    "annotation": (".npz", lambda path: read_annotated(_npz(path, X=_bytes(np.ones((3, 2))), y=TRAPPED), ["y"])),
    "labels": (".npy", lambda path: read_labels(path, rows=3)),
    "images .npy": (".npy", read_images),
    "images .npz": (".npz", lambda path: read_images(path, key="X")),
    "archive": (".npz", lambda path: archives.array(path, "X")),
    "weights": (".pt", _loaded_run),
    "checkpoint": (".pt", lambda path: Checkpoint.load(path, "any")),
    "pickle as a table": (".pkl", read_table),
    "ICA by name": (".npy", lambda path: nm.ICA().fit(str(path))),
}
TRAPPED = b""


@pytest.mark.parametrize("door", DOORS)
def test_a_pickle_in_a_file_is_refused_at_every_door(
    tmp_path: Path, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, read = DOORS[door]
    sprung = tmp_path / "sprung"
    trap: Any = np.empty(3, dtype=object)
    trap[:] = [Trap(sprung)] * 3
    monkeypatch.setattr(sys.modules[__name__], "TRAPPED", _bytes(trap))
    path = tmp_path / f"trap{ending}"
    if ending == ".npz":
        _npz(path, X=_bytes(trap.reshape(3, 1)), y=_bytes(trap))
    elif ending == ".npy":
        path.write_bytes(_bytes(trap if door == "labels" else trap.reshape(3, 1)))
    elif ending == ".pt":
        torch.save({"points": Trap(sprung)}, path)
    else:
        path.write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises((InputError, ValueError), match=r"\S"):
        read(path)
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung)))
    assert sprung.exists()  # the trap does work


# ---- paths in archives ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "..\\evil", "a/../../evil"])
def test_names_in_an_archive_are_names_and_no_paths(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    path = _npz(inside / "x.npz", **{name: _bytes(np.ones((4, 2)))})
    before = sorted(tmp_path.rglob("*"))
    assert read_table(path).x.tolist() == np.ones((4, 2)).tolist()
    assert archives.array(path, name).shape == (4, 2)
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/tmp/evil").exists()
    assert not Path("/tmp/evil.npy").exists()


@pytest.mark.parametrize("ending", ["zarr", "h5"])
def test_a_key_does_not_lead_out_of_its_store(tmp_path: Path, ending: str) -> None:
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    path = tmp_path / f"x.{ending}"
    for name in ("x", "secret"):
        if ending == "zarr":
            zarr.create_array(tmp_path / f"{name}.zarr", data=np.ones((4, 2)))
        else:
            with h5py.File(tmp_path / f"{name}.h5", "w") as file:
                file["t"] = np.ones((4, 2))
    for key in (f"../secret.{ending}", str(tmp_path / f"secret.{ending}"), "..", "/"):
        with pytest.raises(InputError, match="must hold one array, or --key must name one"):
            read_table(path, key=key)


def test_a_table_of_pictures_names_none_outside_its_folder(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "in").mkdir()
    for name in ("in/a.png", "out.png"):
        image.new("L", (4, 4)).save(tmp_path / name)
    (tmp_path / "factors.csv").write_text("file,shade\na.png,1\n../out.png,2\n")
    with pytest.raises(InputError, match=r"must be of an image in the folder. Got \.\./out\.png"):
        picture_folder(tmp_path / "in", tmp_path / "factors.csv")


def test_a_run_names_its_parts_and_no_others(tmp_path: Path) -> None:
    nm.save(
        nm.VAE(1, training=nm.Training(steps=2), n_models=1, random_state=0).fit(np.eye(9)[:, :3]), tmp_path / "run"
    )
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    for kind in ("os.system", "__import__", "Path"):
        path.write_text(json.dumps(config | {"estimator": kind}))
        with pytest.raises(InputError, match=r"The estimator in .* must be one of"):
            nm.load(tmp_path / "run")
        changed = config["parameters"] | {"penalty": {kind: {"command": "true"}}}
        path.write_text(json.dumps(config | {"parameters": changed}))
        with pytest.raises(InputError, match="The stored penalty must be one of"):
            nm.load(tmp_path / "run")


# ---- the network, and other processes ------------------------------------------------------------------------------


EVERYTHING = """
import hashlib, json, os, pkgutil, sys, importlib
from pathlib import Path

reached = []
def listen(event, arguments):
    if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
        reached.append(f"{event} {arguments!r:.80}")
        raise OSError("the network was reached for")
    if event == "pickle.find_class":
        reached.append(f"{event} {arguments!r:.80}")
sys.addaudithook(listen)

import noumena as nm
for module in pkgutil.walk_packages(nm.__path__, "noumena."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
import numpy as np
import pandas as pd
from noumena.cli import main

def run(*arguments):
    sys.argv = ["noumena", *map(str, arguments)]
    try:
        main()
    except SystemExit as left:
        assert not left.code, (arguments, left.code)

sys.stdout, kept = open(os.devnull, "w"), sys.stdout
rng = np.random.default_rng(0)
x = rng.laplace(size=(150, 4)) @ rng.normal(size=(4, 4))
pd.DataFrame(x, columns=list("abcd")).assign(p=np.arange(150) % 3, y=np.arange(150) // 3 % 2).to_csv("d.csv")
np.save("x.npy", x)
np.save("z.npy", x[:, ::-1] ** 3)
run("fit", "x.npy", "--latents", 2, "--models", 2, "--steps", 20, "--out", "run")
run("certify", "run", "--out", "certified", "--query", "x1 | x2")
run("report", "run")
run("audit", "x.npy", "z.npy", "--folds", 2, "--out", "audited")
run("score", "x.npy", "z.npy", "--metrics", "mcc,dci,mig", "--shuffles", 2, "--out", "scored")
quick = ("--folds", 3, "--rotations", 1, "--leaf", 5)
run("deconfound", "d.csv", "--batch", "p", "--label", "y", *quick, "--out", "parted")
np.save("ica.npy", nm.ICA(random_state=0).fit(x).components_)
np.save("latents.npy", nm.load("run").transform(x))
sys.stdout = kept
files = sorted(p for p in Path(".").rglob("*") if p.is_file())
print(json.dumps({"reached": reached, "files": {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}}))
"""


def everything(folder: Path, hash_seed: str) -> subprocess.Popen:
    """Import every module and run every verb in another process, which tells what it reached for and its files."""
    folder.mkdir()
    settings = os.environ | {"PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"}
    call = [sys.executable, "-W", "ignore", "-c", EVERYTHING]
    return subprocess.Popen(call, cwd=folder, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    root = tmp_path_factory.mktemp("processes")
    found = []
    for process in [everything(root / seed, seed) for seed in ("1", "4242")]:
        told, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-2000:]
        found.append(json.loads(told.splitlines()[-1]))
    return found


@pytest.mark.slow
def test_nothing_reaches_for_the_network_or_unpickles_at_import_or_at_work(both: list[dict[str, Any]]) -> None:
    assert both[0]["reached"] == []


@pytest.mark.slow
def test_a_seed_gives_the_same_bytes_in_every_process(both: list[dict[str, Any]]) -> None:
    one, two = (found["files"] for found in both)
    assert {"run/weights.safetensors", "run/report.html", "ica.npy", "audited/audit.json"} <= set(one)
    assert set(one) == set(two)
    assert [name for name in one if one[name] != two[name]] == []
