"""Representations: the layer asked for, pooled to rows, of any module, which is left as it was."""

import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from forked_modules import Forked, hidden
from forked_modules import net as net
from forked_modules import x as x
from noumena.checks import InputError
from noumena.extraction import representations
from noumena.extraction.pooling import first_token, last_token, mean_token

# ---- layers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 10, 99])
def test_a_hidden_layer_is_what_it_is_by_hand_whatever_the_batches(net, x, size):
    np.testing.assert_allclose(representations(net, x, "1", batch_size=size), hidden(net, x), rtol=1e-5)


def test_without_a_layer_the_output_of_the_module_is_read(net, x):
    expected = net.eval()(torch.as_tensor(x).float()).detach().numpy()
    np.testing.assert_allclose(representations(net, x), expected, rtol=1e-5)


def test_a_layer_behind_which_another_works_in_place_is_read_as_it_was(x):
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True))
    found = representations(net, x, "0")
    assert (found < 0).any()
    np.testing.assert_allclose(found, net[0](torch.as_tensor(x).float()).detach(), rtol=1e-5)


def test_a_wrong_name_is_answered_with_near_ones():
    encoder = nn.Module()
    encoder.encoder = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])})
    with pytest.raises(InputError, match=r"name of a layer.*'encoder.layer.1'; similar are encoder\.layers\.1"):
        representations(encoder, np.ones((2, 2)), "encoder.layer.1")
    with pytest.raises(InputError, match="no layers"):
        representations(nn.Identity(), np.ones((2, 2)), "fc")
    with pytest.raises(InputError, match=r"a name, the number of a hidden state, or None. Got True"):
        representations(nn.Identity(), np.ones((2, 2)), True)


def test_a_layer_must_be_called_exactly_once():
    shared = nn.Tanh()
    with pytest.raises(InputError, match=r"once in a forward pass. Got 2 calls"):
        representations(nn.Sequential(shared, nn.Linear(2, 2), shared), np.ones((2, 2)), "2")
    unused = Forked(lambda h: h)
    unused.spare = nn.Tanh()
    with pytest.raises(InputError, match=r"'spare' must be called once in a forward pass. Got no call"):
        representations(unused, np.ones((2, 2)), "spare")


@pytest.mark.parametrize(
    "give",
    [
        lambda h: (None, h, -h),
        lambda h: {"pooled": -h, "last_hidden_state": h},
        lambda h: {"loss": None, "logits": [h]},
    ],
    ids=["tuple", "last hidden state", "nested"],
)
def test_of_several_outputs_the_first_tensor_or_the_last_hidden_state_is_read(give, x):
    np.testing.assert_allclose(representations(Forked(give), x), x, rtol=1e-6)


@pytest.mark.parametrize(
    ("give", "sentence"),
    [
        (lambda h: "text", "must give a tensor. Got a str"),
        (lambda h: h.sum(), r"axis of rows. Got torch.float32, shape \(\)"),
        (lambda h: h.long(), "real numbers"),
        (lambda h: h.T, "rows of the batch first"),
    ],
)
def test_outputs_that_are_no_rows_of_numbers_are_refused(give, sentence):
    with pytest.raises(InputError, match=sentence):
        representations(Forked(give), np.ones((3, 2)))


def test_rows_that_leave_the_finite_numbers_are_named(x):
    x[[4, 7], 1] = np.nan, np.inf
    with pytest.raises(InputError, match=r"finite. Got NaN or inf in 2 of the 7 rows of a batch, among them \[4, 7\]"):
        representations(nn.Identity(), [x[:3], x[3:]])
    with pytest.raises(InputError, match="finite"):
        representations(nn.Identity(), np.full((2, 2), 1e30), dtype="float16")


# ---- the module is left as it was --------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_mode_hooks_and_gradients_are_as_before_also_after_a_failure(net, x, fails):
    net.train()
    net[3].eval()
    rows = np.full_like(x, np.nan) if fails else x
    try:
        representations(net, rows, "1")
    except InputError:
        assert fails
    assert [module.training for module in net.modules()] == [True, True, True, True, False]
    assert not any(module._forward_hooks for module in net.modules())
    assert torch.is_grad_enabled()
    assert all(p.requires_grad for p in net.parameters())


def test_dropout_and_gradients_are_off_while_the_module_runs(x):
    seen = []
    net = nn.Sequential(nn.Dropout(0.5), Forked(lambda h: (seen.append(torch.is_grad_enabled()), h)[1]))
    np.testing.assert_allclose(representations(net.train(), x), x, rtol=1e-6)
    assert seen == [False]


def test_a_module_that_draws_random_numbers_draws_the_same_and_leaves_the_stream_alone(x):
    noisy = Forked(lambda h: h + torch.randn(h.shape))
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second = (representations(noisy, x, batch_size=4) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first[:4] - x[:4], first[4:8] - x[4:8])
    assert torch.equal(torch.get_rng_state(), before)


def test_rows_take_the_precision_of_the_module_and_the_table_its_own(net, x):
    exact = hidden(net, x)
    assert representations(net.double(), x.astype(np.float32), "1").dtype == np.float32
    found = representations(net, x, "1", dtype="float64")
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, exact, rtol=1e-5)
    assert representations(net.to(torch.bfloat16), x).dtype == np.float32
    with pytest.raises(InputError, match="dtype must be one of"):
        representations(net, x, dtype="int8")


def test_a_device_must_exist_and_the_module_comes_home(net, x):
    representations(net, x, device="auto")
    assert next(net.parameters()).device.type == "cpu"
    with pytest.raises(InputError, match=r"auto or a torch device. Got 'toaster'"):
        representations(net, x, device="toaster")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="present on this machine"):
            representations(net, x, device="cuda")


def test_a_device_that_is_given_holds_the_rows_and_the_module_meanwhile():
    class Told(nn.Linear):
        def to(self, place):
            moves.append(place.type)

        def forward(self, x):
            moves.append(f"rows on {x.device.type}")
            return torch.ones(len(x), 2)

    moves = []
    representations(Told(2, 2), np.ones((3, 2)), device="meta")
    assert moves == ["meta", "rows on meta", "cpu"]


# ---- pooling -----------------------------------------------------------------------------------------------------


MASK = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
"""Padded on the right, on the left, and not at all."""


def test_tokens_are_pooled_where_the_mask_keeps_them_as_a_loop_would():
    h = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    for row in range(3):
        kept = h[row][MASK[row].bool()]
        for pool, expected in ((mean_token, kept.mean(0)), (first_token, kept[0]), (last_token, kept[-1])):
            torch.testing.assert_close(pool(h, MASK.bool())[row], expected)
            torch.testing.assert_close(pool(h[2:], None)[0], pool(h, MASK.bool())[2])


def test_the_mask_of_a_batch_is_used_and_what_it_hides_may_be_anything():
    h = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    spoilt = torch.where(MASK.bool()[..., None], h, torch.nan)
    found = representations(Forked(lambda x: x), {"x": spoilt, "attention_mask": MASK}, batch_size=2)
    np.testing.assert_allclose(found, mean_token(h, MASK.bool()), rtol=1e-6)
    last = representations(Forked(lambda x: x), {"x": spoilt, "attention_mask": MASK}, pooling="last")
    np.testing.assert_array_equal(last, torch.stack([h[0, 1], h[1, 3], h[2, 3]]))


def test_maps_are_averaged_over_space_or_laid_flat():
    maps = torch.arange(2 * 3 * 2 * 2.0).reshape(2, 3, 2, 2)
    np.testing.assert_allclose(representations(nn.Identity(), maps), maps.mean(dim=(2, 3)))
    for name in ("flatten", "none"):
        np.testing.assert_allclose(representations(nn.Identity(), maps, pooling=name), maps.flatten(1))
    np.testing.assert_allclose(representations(nn.Flatten(0), torch.ones(3, 1)), np.ones((3, 1)))
    with pytest.raises(InputError, match=r"mean, flatten or a function. Got 'first'"):
        representations(nn.Identity(), maps, pooling="first")


def test_a_function_pools_with_the_mask_and_must_return_rows():
    h = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    data = {"x": h, "attention_mask": MASK}
    found = representations(Forked(lambda x: x), data, pooling=lambda h, mask: h[:, 1] * mask.sum(1, keepdim=True))
    np.testing.assert_allclose(found, h[:, 1] * MASK.sum(1, keepdim=True), rtol=1e-6)
    with pytest.raises(InputError, match=r"3 rows, \(batch, dim\). Got shape \(4, 2\)"):
        representations(Forked(lambda x: x), data, pooling=lambda h, mask: h[0])
    with pytest.raises(InputError, match="Got a NoneType"):
        representations(Forked(lambda x: x), data, pooling=lambda h, mask: None)


def test_a_mask_must_fit_the_tokens_and_keep_one_of_every_row():
    with pytest.raises(InputError, match=r"the layer's tokens.*Got \(3, 4\) for \(3, 5, 2\)"):
        representations(Forked(lambda x: x), {"x": torch.ones(3, 5, 2), "attention_mask": MASK})
    with pytest.raises(InputError, match="keep a token of every row"):
        representations(Forked(lambda x: x), {"x": torch.ones(3, 4, 2), "attention_mask": MASK * 0})


def test_batches_of_different_width_are_refused(tmp_path):
    batches = [torch.ones(2, 3, 2), torch.ones(2, 4, 2)]
    for out in (None, tmp_path / "h.npy"):
        with pytest.raises(InputError, match=r"equally many columns; pool the tokens. Got 6 and 8"):
            representations(nn.Identity(), batches, pooling="flatten", out=out)


# ---- transformers ------------------------------------------------------------------------------------------------


def tiny(kind):
    """A small model with random weights, and a batch for it."""
    transformers = pytest.importorskip("transformers")
    shared = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    ids = torch.randint(0, 50, (5, 6))
    mask = torch.ones(5, 6, dtype=torch.long)
    mask[1, 4:] = 0
    if kind == "gpt":
        config = transformers.GPTNeoXConfig(vocab_size=50, max_position_embeddings=16, **shared)
        return transformers.GPTNeoXModel(config), {"input_ids": ids, "attention_mask": mask}
    if kind == "bert":
        config = transformers.BertConfig(vocab_size=50, max_position_embeddings=16, **shared)
        return transformers.BertModel(config), {"input_ids": ids, "attention_mask": mask}
    decoder = {f"decoder_{name}": value for name, value in shared.items()}
    config = transformers.ViTMAEConfig(image_size=8, patch_size=4, mask_ratio=0.0, **shared, **decoder)
    return transformers.ViTMAEModel(config), {"pixel_values": torch.randn(5, 3, 8, 8)}


@pytest.mark.parametrize("kind", ["gpt", "bert", "mae"])
def test_models_of_transformers_go_through_the_same_door(kind):
    model, batch = tiny(kind)
    found = representations(model, batch, batch_size=2)
    assert found.shape == (5, 16)
    with torch.no_grad():
        states = model.eval()(**batch).last_hidden_state
    weight = batch.get("attention_mask", torch.ones(states.shape[:2]))[..., None]
    np.testing.assert_allclose(found, (states * weight).sum(1) / weight.sum(1), atol=1e-5)


@pytest.mark.parametrize("kind", ["gpt", "bert", "mae"])
def test_hidden_states_have_numbers_and_are_what_the_layers_give(kind):
    model, batch = tiny(kind)
    layer = next(name for name, _ in model.named_modules() if name.endswith((".layer.0", "layers.0")))
    by_name, by_number = (representations(model, batch, which, pooling="last") for which in (layer, 1))
    np.testing.assert_allclose(by_name, by_number, atol=1e-6)
    np.testing.assert_allclose(representations(model, batch, -2), representations(model, batch, 1), atol=1e-6)
    assert not np.allclose(representations(model, batch, 0), representations(model, batch, 1))
    with pytest.raises(InputError, match=r"from 0 to 2, or negative from the end. Got 3"):
        representations(model, batch, 3)


def letters(asked):
    """A tokenizer of letters that notes what it was asked."""

    def tokenizer(texts, *, padding, truncation, return_tensors):
        asked.append((len(texts), padding, truncation, return_tensors))
        longest = max(map(len, texts))
        ids = [[ord(letter) % 50 for letter in text] + [0] * (longest - len(text)) for text in texts]
        mask = [[1] * len(text) + [0] * (longest - len(text)) for text in texts]
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}

    return tokenizer


def test_texts_are_tokenised_batch_by_batch_with_their_padding_masked():
    model, _ = tiny("bert")
    asked, texts = [], ["a", "long text", "text"]
    together, alone = (representations(model, texts, tokenizer=letters(asked), batch_size=size) for size in (3, 1))
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert asked[0] == (3, True, True, "pt")


@pytest.mark.parametrize("form", [np.array, pd.Series, lambda texts: np.array(texts, dtype=object)])
def test_texts_in_an_array_or_a_column_are_those_of_a_list(form):
    model, _ = tiny("bert")
    texts = ["a", "long text", "text"]
    listed, given = (representations(model, data, tokenizer=letters([])) for data in (texts, form(texts)))
    np.testing.assert_array_equal(given, listed)
    with pytest.raises(InputError, match="Texts must come with the model's tokenizer"):
        representations(model, form(texts))


def test_a_masked_autoencoder_must_see_whole_images():
    model, batch = tiny("mae")
    model.config.mask_ratio = 0.75
    with pytest.raises(InputError, match=r"mask_ratio must be 0.*Got 0.75, which hides patches at random"):
        representations(model, batch)


def test_numbers_of_layers_are_for_models_of_transformers_alone(net, x, monkeypatch):
    pytest.importorskip("transformers")
    with pytest.raises(InputError, match=r"a name unless the model is one of transformers. Got number 1 for a Seq"):
        representations(net, x, 1)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"package transformers; install noumena\[hub\]"):
        representations(net, x, 1)
