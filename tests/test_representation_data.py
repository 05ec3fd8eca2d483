"""Representations: the rows given, from any kind of data, and a file complete or absent."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from forked_modules import Forked, hidden
from forked_modules import net as net
from forked_modules import x as x
from noumena.checks import InputError
from noumena.extraction import representations

# ---- data --------------------------------------------------------------------------------------------------------


def test_arrays_tensors_loaders_and_generators_give_the_same_rows(net, x):
    tensor, expected = torch.as_tensor(x).float(), hidden(net, x)
    stream = type("Stream", (IterableDataset,), {"__iter__": lambda self: iter(tensor)})()
    forms = [
        tensor,
        DataLoader(TensorDataset(tensor, torch.arange(10)), batch_size=4),
        DataLoader(stream, batch_size=4),
        [x[:5], x[5:]],
        (part for part in (x[:1], x[1:])),
        ({"input": part} for part in (x[:9], x[9:])),
        {"input": x},
    ]
    for data in forms:
        np.testing.assert_allclose(representations(net, data, "1", progress=True), expected, rtol=1e-5)


def test_a_data_frame_is_its_numbers(net, x):
    pandas = pytest.importorskip("pandas")
    np.testing.assert_allclose(representations(net, pandas.DataFrame(x), "1"), hidden(net, x), rtol=1e-5)


def test_a_memory_mapped_array_is_read_batch_by_batch(tmp_path, net, x):
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    sizes = []
    watched = Forked(lambda h: (sizes.append(len(h)), net[:2](h))[1])
    np.testing.assert_allclose(representations(watched, mapped, batch_size=4), hidden(net, x), rtol=1e-5)
    assert sizes == [4, 4, 2]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (3, "must be an array of rows.*Got a int"),
        ("rows.npy", "must be an array of rows.*Got a str"),
        (np.ones((0, 4)), "must hold a row"),
        ([], "must hold a row. Got no batch"),
        (np.array([["a"]]), "must hold numbers"),
        ([{"name": "a"}], "must hold a tensor. Got entries name"),
        ([["a"]], "A batch must be an array"),
        ({"a": np.ones(3), "b": np.ones(2)}, r"share their batch axis. Got lengths {'a': 3, 'b': 2}"),
        (["some", "text"], "tokenizer. Got tokenizer=None"),
    ],
)
def test_data_that_cannot_be_read_is_refused_in_a_sentence(data, sentence):
    with pytest.raises(InputError, match=sentence):
        representations(nn.Identity(), data)


def test_settings_that_make_no_sense_are_refused(x):
    with pytest.raises(InputError, match=r"model must be a torch module. Got a function"):
        representations(lambda rows: rows, x)
    with pytest.raises(InputError, match="batch_size"):
        representations(nn.Identity(), x, batch_size=0)
    with pytest.raises(InputError, match="pooling must be one of mean, first, last, none, flatten"):
        representations(nn.Identity(), x, pooling="max")


# ---- files -------------------------------------------------------------------------------------------------------


class Failing(nn.Module):
    """A linear layer that counts its calls and is interrupted at one of them."""

    def __init__(self, at=None):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.inner = nn.Linear(4, 3)
        self.calls, self.at = 0, at

    def forward(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return self.inner(x)


def test_a_file_is_mapped_into_memory_and_never_written_over(tmp_path, net, x):
    out = tmp_path / "h.npy"
    found = representations(net, x, "1", batch_size=3, out=out)
    assert isinstance(found, np.memmap)
    np.testing.assert_allclose(np.load(out, allow_pickle=False), hidden(net, x), rtol=1e-5)
    assert [file.name for file in tmp_path.iterdir()] == ["h.npy"]
    with pytest.raises(InputError, match=r"out must not exist yet. Got h.npy"):
        representations(net, x, "0", out=out)


def interrupted(out, data, **settings):
    """Leave an extraction at its third batch of four rows."""
    with pytest.raises(KeyboardInterrupt):
        representations(Failing(at=3), data, batch_size=4, out=out, **settings)
    assert not out.exists()
    assert json.loads(out.with_name("h.npy.part.json").read_text())["rows"] == 8


@pytest.mark.parametrize("kind", ["array", "loader"])
def test_an_interrupted_extraction_goes_on_where_it_stopped(tmp_path, kind):
    rows = np.random.default_rng(1).normal(size=(18, 4)).astype(np.float32)
    data = rows if kind == "array" else DataLoader(TensorDataset(torch.as_tensor(rows)), batch_size=4)
    out = tmp_path / "h.npy"
    interrupted(out, data)
    with out.with_name("h.npy.part").open("ab") as file:
        file.write(b"half a row that was never noted")
    model = Failing()
    found = representations(model, data, batch_size=4, out=out)
    assert model.calls == 3
    np.testing.assert_allclose(found, representations(Failing(), rows), rtol=1e-5)
    assert [file.name for file in tmp_path.iterdir()] == ["h.npy"]


def other_weights(model):
    with torch.no_grad():
        model.inner.bias.add_(1.0)


CHANGES = {
    "rows": ({}, lambda model: None, lambda rows: rows + 1),
    "weights": ({}, other_weights, lambda rows: rows),
    "batches": ({"batch_size": 5}, lambda model: None, lambda rows: rows),
    "precision": ({"dtype": "float64"}, lambda model: None, lambda rows: rows),
    "a generator": ({}, lambda model: None, lambda rows: (rows[k : k + 4] for k in range(0, 18, 4))),
    "a function": ({"pooling": lambda h, mask: 2 * h}, lambda model: None, lambda rows: rows),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_extraction_that_cannot_be_continued_starts_anew_and_says_so(tmp_path, change):
    settings, alter, data = CHANGES[change]
    rows, out = np.random.default_rng(1).normal(size=(18, 4)).astype(np.float32), tmp_path / "h.npy"
    interrupted(out, rows)
    model = Failing()
    alter(model)
    settings = {"batch_size": 4, **settings}
    with pytest.warns(UserWarning, match="the extraction starts anew"):
        found = representations(model, data(rows), out=out, **settings)
    assert model.calls == -(-18 // settings["batch_size"])
    twin = Failing()
    alter(twin)
    np.testing.assert_allclose(found, representations(twin, data(rows), **settings), rtol=1e-5)


def test_a_file_needs_a_name_a_folder_and_rows(tmp_path, x):
    with pytest.raises(InputError, match=r"name of an .npy file. Got h.csv"):
        representations(nn.Identity(), x, out=tmp_path / "h.csv")
    with pytest.raises(InputError, match="folder of out must exist"):
        representations(nn.Identity(), x, out=tmp_path / "nowhere" / "h.npy")
    with pytest.raises(InputError, match="must hold a row"):
        representations(nn.Identity(), [], out=tmp_path / "h.npy")
