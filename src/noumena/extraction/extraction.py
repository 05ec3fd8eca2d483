"""Extraction: the rows of the data through a module, batch by batch, and what a layer makes of them.

Any torch module goes through the same door, models of ``transformers``, ``timm`` and ``torchvision`` among them. The
layer is read by a forward hook. Reference: Nelson et al. (2026), A.7.2, where representations are penultimate hidden
states, patch embeddings in the mean, and penultimate layers.
**Deviations**: the mean over the tokens of an image counts a class token too; drop it with a function of ``(h, mask)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from noumena import checks, seeds
from noumena.extraction import hub
from noumena.extraction.batches import Batch, Batches, batches_of
from noumena.extraction.growing import Gathered, Growing, fingerprint
from noumena.extraction.layers import Reader, precision, standing_still, tapped
from noumena.extraction.pooling import Pooling, check_pooling, pooled

DTYPES = ("float16", "float32", "float64")


def representations(
    model: Any,
    data: Any,
    layer: str | int | None = None,
    *,
    pooling: Pooling = "mean",
    batch_size: int = 256,
    device: str | torch.device | None = None,
    tokenizer: Callable[..., Any] | None = None,
    out: str | Path | None = None,
    dtype: str = "float32",
    progress: bool = False,
) -> np.ndarray:
    """What a layer of ``model`` makes of ``data``: a table, one row per row.

    ``data`` is an array or tensor of rows with any number of axes (memory-mapped ones are read by the batch), a
    mapping of them, texts with their ``tokenizer``, or an iterable of batches, e.g. a ``DataLoader``: of a tuple the
    first entry is used, a mapping is passed by name. ``layer`` is a name in ``model.named_modules()``, ``None`` for
    the module's output or, for models of ``transformers``, the number of a hidden state.

    Tokens ``(batch, token, dim)`` are pooled by ``"mean"``, ``"first"`` or ``"last"`` among those that the batch's
    ``attention_mask`` keeps, maps ``(batch, channel, height, width)`` by their mean over space; ``"flatten"`` (or
    ``"none"``) lays all axes in one, and a function of ``(h, mask)`` does anything else.

    The module runs in evaluation mode without gradients, on its own device unless another is given, and is left as it
    was. With ``out``, an ``.npy`` file that must not exist yet, the result is a memory map of it; it is written under
    a temporary name, and a run that was interrupted continues if model, settings and batches are the same.

    >>> representations(nn.Identity(), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    checks.require(isinstance(model, nn.Module), "model must be a torch module.", f"a {type(model).__name__}")
    check_pooling(pooling)
    checks.one_of(dtype, "dtype", DTYPES)
    hub.refuse_hidden_patches(model)
    batches = batches_of(data, checks.count(batch_size, "batch_size"), tokenizer)
    name = None if callable(pooling) else pooling
    table = Gathered(dtype) if out is None else Growing(out, dtype, fingerprint(model, layer, name, batch_size))
    try:
        with standing_still(model, device) as place, _reader(model, layer) as read, _bar(progress, batches) as advance:
            for batch in _unfinished(batches, table, name is not None):
                moved = batch.to(place, precision(model))
                with seeds.global_torch(0, "representations", table.batches):
                    h = read(moved)
                checks.require(len(h) == batch.rows, "The layer must give the rows of the batch first.", tuple(h.shape))
                block = pooled(h, pooling, moved.mask).cpu().numpy()
                table.add(_finite(block, dtype, table.rows), batch)
                advance(table.batches)
        return table.complete()
    finally:
        table.close()


def _unfinished(batches: Batches, table: Gathered | Growing, comparable: bool) -> Iterator[Batch]:
    """The batches that are still to do."""
    iterator = batches.read()
    if isinstance(table, Gathered):
        return iterator
    if batches.once or not comparable:  # they cannot be read again, or nobody knows what the function was
        table.anew()
        return iterator
    return iterator if table.resume(iterator) else batches.read()


def _reader(model: nn.Module, layer: str | int | None) -> AbstractContextManager[Reader]:
    if isinstance(layer, str) or layer is None:
        return tapped(model, layer)
    whole = isinstance(layer, int) and not isinstance(layer, bool)
    checks.require(whole, "layer must be a name, the number of a hidden state, or None.", repr(layer))
    return nullcontext(hub.hidden_state(model, layer))


def _finite(block: np.ndarray, dtype: str, before: int) -> np.ndarray:
    """The block in its precision, unless it has left the finite numbers; rows are counted from the first of all."""
    with np.errstate(over="ignore"):
        block = block.astype(dtype)
    bad = before + np.flatnonzero(~np.isfinite(block).all(axis=1))
    given = f"NaN or inf in {len(bad)} of the {len(block)} rows of a batch, among them {bad[:5].tolist()}"
    checks.require(not len(bad), "Representations must be finite.", given)
    return block


@contextmanager
def _bar(shown: bool, batches: Batches) -> Iterator[Callable[[int], None]]:
    """A progress bar on the error stream, or nothing."""
    if not shown:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("representations", total=batches.total)
        yield lambda done: bar.update(task, completed=done)
