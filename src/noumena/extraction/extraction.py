"""Extraction: what a layer of any torch module computes on the rows of the data, batch by batch.

Models of ``transformers``, ``timm`` and ``torchvision`` are torch modules too. The layer is read by a forward hook.

References
----------
Nelson et al. (2026), "Statistical and structural identifiability in representation learning", A.7.2, where
representations are penultimate hidden states, mean patch embeddings, and penultimate layers.

Deviations: the mean over the tokens of an image counts a class token too; drop it with a function of ``(h, mask)``.
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
from noumena.extraction.batches import Batch, Batches, batches_of
from noumena.extraction.layers import Reader, evaluation_mode, hidden_state, hooked, precision, refuse_hidden_patches
from noumena.extraction.npy_writer import MemoryWriter, NpyWriter, fingerprint
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
    """Representations of ``data`` at a layer of ``model``: a table, one row per row of the data.

    The module runs in evaluation mode without gradients and is left as it was.

    Parameters
    ----------
    model : torch.nn.Module
        The model.
    data : array, tensor, mapping of these, sequence of str, or iterable of batches
        Rows with any number of axes, or batches such as those of a ``DataLoader``: of a tuple the first entry is used,
        a
        mapping is passed by name.
    layer : str or int, optional
        A name in ``model.named_modules()``, or the number of a hidden state of a ``transformers`` model; by default
        the
        output.
    pooling : {"mean", "first", "last", "flatten", "none"} or callable
        How tokens ``(batch, token, dim)`` that the ``attention_mask`` keeps become one row; feature maps are averaged
        over
        space, "flatten" and "none" keep all axes, and a function of ``(h, mask)`` does anything else.
    batch_size : int
        Rows per forward pass.
    device : str or torch.device, optional
        Where the model runs; by default where it is.
    tokenizer : callable, optional
        Of texts.
    out : str or Path, optional
        An ``.npy`` file that must not exist; the result is then a memory map of it, and an interrupted run resumes.
    dtype : {"float16", "float32", "float64"}
        Precision of the result.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    array of shape (n_samples, n_features)

    Examples
    --------
    >>> representations(nn.Identity(), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    checks.require(isinstance(model, nn.Module), "model must be a torch module.", f"a {type(model).__name__}")
    check_pooling(pooling)
    checks.one_of(dtype, "dtype", DTYPES)
    refuse_hidden_patches(model)
    batches = batches_of(data, checks.count(batch_size, "batch_size"), tokenizer)
    name = None if callable(pooling) else pooling
    table = MemoryWriter(dtype) if out is None else NpyWriter(out, dtype, fingerprint(model, layer, name, batch_size))
    try:
        with evaluation_mode(model, device) as place, _reader(model, layer) as read, _bar(progress, batches) as advance:
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


def _unfinished(batches: Batches, table: MemoryWriter | NpyWriter, comparable: bool) -> Iterator[Batch]:
    """The batches that are still to do."""
    iterator = batches.read()
    if isinstance(table, MemoryWriter):
        return iterator
    if batches.once or not comparable:  # they cannot be read again, or nobody knows what the function was
        table.anew()
        return iterator
    return iterator if table.resume(iterator) else batches.read()


def _reader(model: nn.Module, layer: str | int | None) -> AbstractContextManager[Reader]:
    if isinstance(layer, str) or layer is None:
        return hooked(model, layer)
    integral = isinstance(layer, int) and not isinstance(layer, bool)
    checks.require(integral, "layer must be a name, the number of a hidden state, or None.", repr(layer))
    return nullcontext(hidden_state(model, layer))


def _finite(block: np.ndarray, dtype: str, before: int) -> np.ndarray:
    """The block in its precision, refused unless finite; rows are counted from the first of all."""
    with np.errstate(over="ignore"):
        block = block.astype(dtype)
    bad = before + np.flatnonzero(~np.isfinite(block).all(axis=1))
    shown = f"NaN or inf in {len(bad)} of the {len(block)} rows of a batch, among them {bad[:5].tolist()}"
    checks.require(not len(bad), "Representations must be finite.", shown)
    return block


@contextmanager
def _bar(shown: bool, batches: Batches) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, or none."""
    if not shown:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("representations", total=batches.total)
        yield lambda done: bar.update(task, completed=done)
