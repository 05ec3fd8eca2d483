"""Files of others are data: nothing in them is run or shown as markup, nothing leaves the machine, and the same input
gives the same output in every process."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import noumena as nm
from noumena.audits.labels import read_labels
from noumena.checks import InputError
from noumena.cli import main
from noumena.cli.images import read_images
from noumena.estimators.checkpoint import Checkpoint
from noumena.report.study_pages import index_page, study_page
from noumena.studies.claims import Claim, line
from noumena.worlds import archives
from noumena.worlds.annotated import read_annotated
from noumena.worlds.folders import folder as picture_folder
from noumena.worlds.tables import read_table

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
    with pytest.raises(InputError, match=r"must be of a picture in the folder. Got \.\./out\.png"):
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


# ---- hostile names on pages ----------------------------------------------------------------------------------------

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "'\"><script>alert(2)<\\script>",
    "--><svg onload=alert(3)>",
    "{{ 7*7 }}{% raw %}",
    "]]>&lt;b&gt;&#60;i>",
    "javascript:alert(4)",
)
"""No slash, so that they can be names of files too."""


class Elements(HTMLParser):
    """The tags of a page, the text outside scripts, and what is inside them."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self.inside = "", [], False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append([dict(attrs).get("type"), ""])

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1][1] += data
        else:
            self.text += data


def harmful(page: str) -> list[str]:
    """What a page would run or fetch besides the script that its policy names."""
    read = Elements(page)
    policy = "".join(attrs.get("content") or "" for tag, attrs in read.tags if tag == "meta")
    found = [f"{tag} {name}" for tag, attrs in read.tags for name in attrs if name.startswith("on")]
    for tag, attrs in read.tags:
        for name in ("src", "href", "action", "xlink:href", "data", "formaction"):
            value = (attrs.get(name) or "").strip().lower()
            inner = (
                value == "data:,"
                or value.startswith(("#", "data:image/", "data:text/csv"))
                or re.fullmatch(r"(?!//)[\w./-]*", value)
            )
            found += [] if inner else [f"{tag} {name}={value[:40]}"]
    found += [tag for tag, _ in read.tags if tag in ("iframe", "object", "embed", "base", "form")]
    for kind, content in read.scripts:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        if kind != "application/json" and f"'sha256-{digest}'" not in policy:
            found.append(f"script {content[:40]}")
        if kind == "application/json":
            json.loads(content)
    return found + ([] if "default-src 'none'" in policy else ["no policy"])


@pytest.mark.parametrize(
    "planted",
    ["<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "<a href='javascript:alert(1)'>", "<svg onload=a()>",
     "<img src=https://example.org/a.png>", "<iframe>", "<base href=x>", "<link href=//example.org>"],
)  # fmt: skip
def test_a_planted_harm_is_found(planted: str) -> None:
    policy = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""
    assert harmful(f"{policy}<p>{planted}</p>") != []
    assert harmful(f"{policy}<p>{planted.replace('<', '&lt;')}</p>") == []
    assert harmful("<p>no policy</p>") == ["no policy"]


def shown(page: str, names: tuple[str, ...] = HOSTILE) -> None:
    """A page harms nobody and has every name as its plain text, or as data for its script."""
    assert harmful(page) == []
    read = Elements(page)
    data = [json.loads(content) for kind, content in read.scripts if kind == "application/json"]
    words = re.sub(r"\s+", " ", read.text) + json.dumps(data, ensure_ascii=False)
    for name in names:
        assert name in words or json.dumps(name, ensure_ascii=False)[1:-1] in words, name


@pytest.fixture
def noumena(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    def run(*arguments: Any) -> None:
        monkeypatch.setattr(sys, "argv", ["noumena", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        assert (left.value.code or 0) == 0, capsys.readouterr().err

    return run


def _table(path: Path, x: np.ndarray, names: tuple[str, ...] = HOSTILE, **annotations: list[str]) -> Path:
    import pandas as pd

    pd.DataFrame(x, columns=pd.Index(names)).assign(**annotations).to_csv(path, index=False)
    return path


X = np.random.default_rng(0).laplace(size=(120, 6)) @ np.random.default_rng(1).normal(size=(6, 6))
Z = np.random.default_rng(2).laplace(size=(120, 6))


def test_hostile_columns_are_words_on_the_page_of_a_run(tmp_path: Path, noumena: Callable[..., None]) -> None:
    data = _table(tmp_path / f"{HOSTILE[0]}.csv", X)
    out = tmp_path / "out"
    noumena("fit", data, "--out", out, "--latents", 2, "--models", 2, "--steps", 3)
    shown((out / "report.html").read_text())
    noumena("report", out)
    shown((out / "report.html").read_text())


def test_hostile_structures_and_queries_are_words_on_their_page(tmp_path: Path, noumena: Callable[..., None]) -> None:
    support = np.eye(6, dtype=bool) | np.eye(6, k=1, dtype=bool)
    latent = [f"{name} latent" for name in HOSTILE]
    nm.Structure(support, observed=HOSTILE, latent=latent).to_csv(tmp_path / "s.csv")
    noumena("certify", tmp_path / "s.csv", "--query", f"{HOSTILE[0]} | {HOSTILE[5]}", "--out", tmp_path / "out")
    shown((tmp_path / "out" / "report.html").read_text(), (*HOSTILE, *latent, f"{HOSTILE[0]} | {HOSTILE[5]}"))


def test_hostile_names_of_files_are_words_on_the_page_of_an_audit(tmp_path: Path, noumena: Callable[..., None]) -> None:
    files = [tmp_path / f"{name}.npy" for name in HOSTILE[:3]]
    for k, file in enumerate(files):
        np.save(file, np.roll(X, k, axis=1))
    noumena("audit", *files, "--no-ica", "--folds", 2, "--out", tmp_path / "out")
    shown((tmp_path / "out" / "report.html").read_text(), HOSTILE[:3])


def test_hostile_factors_are_words_on_the_page_of_scores(tmp_path: Path, noumena: Callable[..., None]) -> None:
    true, learned = _table(tmp_path / "z.csv", Z), _table(tmp_path / "z_hat.csv", Z @ X[:6])
    noumena("score", true, learned, "--metrics", "mcc,dci", "--shuffles", 2, "--out", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert harmful(page) == []


def test_hostile_plates_and_treatments_are_words_on_their_page(tmp_path: Path, noumena: Callable[..., None]) -> None:
    plate, drug = [HOSTILE[k % 3] for k in range(120)], [HOSTILE[3 + k // 3 % 2] for k in range(120)]
    names = tuple(f"{name}." for name in HOSTILE)
    data = _table(tmp_path / f"{HOSTILE[2]}.csv", X, names, **{HOSTILE[0]: plate, HOSTILE[1]: drug})
    asked = ["--batch", HOSTILE[0], "--label", HOSTILE[1], "--folds", 3, "--rotations", 1, "--leaf", 5]
    noumena("deconfound", data, *asked, "--out", tmp_path / "out")
    shown((tmp_path / "out" / "report.html").read_text(), (HOSTILE[2], HOSTILE[3], HOSTILE[4]))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_rows_of_studies_are_words_on_their_pages(name: str) -> None:
    claim = Claim(name, name, 0.8, (0.9,), 0.02, baseline=(name, 0.5))
    other = Claim(f"{name}, other", name, 0.8, (0.9,), 0.02, not_comparable=name)
    about: dict[str, Any] = {"name": name, "title": name, "caption": name, "text": name, "facts": {"hardware": name}}
    shown(study_page(claims=[line(claim), line(other)], figures=[], **about), (name,))
    counts = {"better": 1, "reproduced": 0, "worse": 0, "not comparable": 0, "not run": 0}
    row = {"name": name, "paper": name, "title": name, "counts": counts, "done": 1, "cells": 2, "page": "a.html"}
    shown(index_page([row]), (name,))


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


# ---- types of numbers, and memory ----------------------------------------------------------------------------------

WHOLE = np.random.default_rng(3).integers(0, 2, size=(200, 3)) @ np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1]])
TYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f8", ">i4", "S8", "U8", "O")


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_of_number_gives_what_doubles_give(dtype: str) -> None:
    given = WHOLE.astype(dtype)
    exact = nm.ICA(2, random_state=0).fit(WHOLE.astype(float))
    tolerance = 1e-4 if dtype == "f4" else 1e-9
    found = nm.ICA(2, random_state=0).fit(given)
    np.testing.assert_allclose(found.transform(given), exact.transform(WHOLE.astype(float)), atol=tolerance)
    scores = [nm.metrics.mcc(WHOLE.astype(float), z).score for z in (given, WHOLE.astype(float))]
    assert scores[0] == pytest.approx(scores[1], abs=tolerance)


@pytest.mark.parametrize("dtype", ["?", "f4", "i8", "S3"])
def test_an_estimator_of_networks_takes_every_type_of_number(dtype: str) -> None:
    given = (WHOLE > 0).astype(int).astype(dtype)
    settings: dict[str, Any] = {"training": nm.Training(steps=3), "n_models": 1, "random_state": 0}
    exact = nm.VAE(2, **settings).fit((WHOLE > 0).astype(float))
    found = nm.VAE(2, **settings).fit(given)
    np.testing.assert_allclose(found.transform(given), exact.transform((WHOLE > 0).astype(float)), atol=1e-4)


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "m8[s]", "V3"])
def test_other_types_are_one_sentence(dtype: str) -> None:
    given = np.zeros((20, 3), dtype)
    with pytest.raises(InputError, match=r"^[A-Z]?\w.* Got dtype [^\n]*\.$"):
        nm.ICA(2).fit(given)


CEILING = """
import sys, threading, time
import numpy as np
import noumena as nm
from noumena.estimators import streams
from noumena.worlds.tables import read_table

streams.BLOCK_BYTES = 2**20
streams.stream.__kwdefaults__["memory"] = 2**20
path, rows = "x.npy", 400_000
table, rng = np.lib.format.open_memmap(path, "w+", np.float64, (rows, 16)), np.random.default_rng(0)
mixing = rng.normal(size=(16, 16))
for start in range(0, rows, 20_000):
    table[start : start + 20_000] = rng.laplace(size=(20_000, 16)) @ mixing
del table

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))

nm.ICA(random_state=0).fit(rng.laplace(size=(500, 16)))  # what is imported on first use
most, over = anonymous(), threading.Event()
def watch():
    global most
    while not over.wait(0.002):
        most = max(most, anonymous())
before, watcher = most, threading.Thread(target=watch)
watcher.start()
nm.ICA(random_state=0, max_iter=5).fit(read_table(path, mmap=True).x)
over.set()
watcher.join()
print(most - before, rows * 16 * 8)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ica_of_a_mapped_file_takes_less_memory_than_half_of_the_file(tmp_path: Path) -> None:
    call = [sys.executable, "-W", "ignore", "-c", CEILING]
    settings = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(call, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    taken, size = map(int, done.stdout.split()[-2:])
    assert 0 < taken < size / 2
