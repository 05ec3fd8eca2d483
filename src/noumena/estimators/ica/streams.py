"""Streams: what ICA asks of data larger than memory, summed block by block from a file or a Dask array.

ICA asks for a mean and a covariance once, and in every step for means over rows such as ``E[g(y) whiteᵀ]``. Each is a
map over blocks and a merge; only small sums leave a block. Steps on few rows are answered from a table of white rows,
drawn once in equal proportion from all over the data: as many as the stages of ICA ask for and a memory limit allows,
or all rows where they fit, which then are read twice altogether.

Reference: Chan, Golub and LeVeque (1979), "Updating formulae and a pairwise algorithm for computing sample variances".
**Deviations**: a request for more rows than the table holds is answered with all rows. White rows are float32 whatever
the precision of the rotations; they are made in float64 where the whitening is so uneven that float32 would show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from noumena import checks, seeds, threads
from noumena.estimators.ica.contrasts import ContrastFunction
from noumena.estimators.ica.moments import EVEN, Rotations
from noumena.estimators.ica.rotation import stages
from noumena.estimators.sources import stretches

BLOCK_BYTES = 32 * 2**20  # a file is read in row blocks of about this size
TABLE_BYTES = 256 * 2**20  # of white rows that answer small requests
CACHED_ENTRIES = 2**19  # worked on at once inside a block: what a processor's cache holds
FAN_IN = 8  # results merged at once on the way down the tree of a Dask reduction
Sums = tuple[np.ndarray, ...]  # over rows, in float64


@dataclass(frozen=True)
class Summary:
    """Number, mean and centred scatter of some rows; how many of them are not finite, and the first of these."""

    count: int
    mean: np.ndarray
    scatter: np.ndarray
    bad: int = 0
    first_bad: int = 0


def merged(left: Summary, right: Summary) -> Summary:
    """Summary of two sets of rows together, by Chan's formula: the distance of the means joins the scatters.

    >>> one, three = (Summary(1, np.array([mean]), np.zeros((1, 1))) for mean in (1.0, 3.0))
    >>> merged(one, three)
    Summary(count=2, mean=array([2.]), scatter=array([[2.]]), bad=0, first_bad=0)
    """
    count = left.count + right.count
    gap = right.mean - left.mean
    mean = left.mean + gap * (right.count / count)
    scatter = left.scatter + right.scatter + np.outer(gap, gap) * (left.count * right.count / count)
    return Summary(count, mean, scatter, left.bad + right.bad, left.first_bad if left.bad else right.first_bad)


def summary(rows: np.ndarray, first: int) -> Summary:
    """Summary of a block whose first row is number ``first`` of the data.

    >>> summary(np.array([[1.0], [3.0], [np.nan]]), first=10).first_bad
    12
    """
    found = Summary(0, np.zeros(rows.shape[1]), np.zeros((rows.shape[1], rows.shape[1])))
    for piece in _pieces(len(rows), rows):
        values = torch.from_numpy(np.array(rows[piece], dtype=np.float64))
        odd = ~values.isfinite().all(dim=1)
        values[odd] = 0.0
        mean = values.mean(dim=0)
        values -= mean
        first_odd = first + piece.start + int(odd.int().argmax())
        scatter = (values.T @ values).numpy()
        found = merged(found, Summary(len(odd), mean.numpy(), scatter, int(odd.sum()), first_odd))
    return found


@dataclass(frozen=True)
class Whitener:
    """Makes rows white, ``(x − mean) whiteningᵀ``: centred in float64, projected in the precision of ``whitening``.

    >>> Whitener(np.array([1.0, 1.0]), np.array([[0.5, 0.0]]))(np.array([[3, 5]]))
    tensor([[1.]])
    """

    mean: np.ndarray
    whitening: np.ndarray

    def __call__(self, rows: np.ndarray) -> Float[Tensor, "rows component"]:
        """White rows, in float32."""
        centred = np.subtract(rows, self.mean, dtype=np.float64).astype(self.whitening.dtype, copy=False)
        return (torch.from_numpy(centred) @ torch.from_numpy(self.whitening).T).float()


def moment_sums(white: Tensor, W: Rotations, contrast: ContrastFunction) -> tuple[Tensor, Tensor]:
    """Sums of ``g(y) whiteᵀ`` and ``g'(y)`` over white rows, for every rotation."""
    g, slope = contrast.parts(white[None] @ W.mT)
    return g.mT @ white[None], slope


def value_sums(white: Tensor, W: Rotations, contrast: ContrastFunction) -> tuple[Tensor]:
    """Sums of ``G(y)`` over white rows, for every rotation."""
    return (contrast.value(white[None] @ W.mT).sum(dim=-2, dtype=torch.float64),)


def added(left: Sums, right: Sums) -> Sums:
    """Sums over two sets of rows together.

    >>> added((np.ones(1), np.ones(2)), (np.ones(1), np.ones(2)))
    (array([2.]), array([2., 2.]))
    """
    return tuple(a + b for a, b in zip(left, right, strict=True))


def _sums(whites: Iterator[Tensor], question: Callable) -> Sums:
    return reduce(added, (tuple(part.double().numpy() for part in question(white)) for white in whites))


def block_sums(rows: np.ndarray, first: int, white: Whitener, question: Callable) -> Sums:
    """The sums that a question about white rows asks for, over one block of the data."""
    return _sums((white(rows[piece]) for piece in _pieces(len(rows), rows)), question)


def chosen(first: int, size: int, share: float, seed: int) -> np.ndarray:
    """Which rows of a block are drawn: ``share`` of them, one at random from each of as many equal stretches.

    >>> chosen(first=0, size=4, share=1.0, seed=0)
    array([0, 1, 2, 3])
    """
    count = round((first + size) * share) - round(first * share)
    edges = np.arange(count + 1) * size // max(count, 1)
    within = seeds.numpy_generator(seed, "rows of a stream", first).random(count)
    return edges[:-1] + (within * np.diff(edges)).astype(np.int64)


def drawn_rows(rows: np.ndarray, first: int, white: Whitener, share: float, seed: int) -> np.ndarray:
    """The white rows that a block gives to the table."""
    numbers = chosen(first, len(rows), share, seed)
    result = np.empty((len(numbers), len(white.whitening)), np.float32)
    for piece in _pieces(len(numbers), rows):
        result[piece] = white(rows[numbers[piece]])
    return result


def _pieces(count: int, rows: np.ndarray | Tensor) -> Iterator[slice]:
    """Stretches of ``count`` such rows that fit a processor's cache."""
    return stretches(count, 1, max(CACHED_ENTRIES // rows.shape[1], 512))


class Stream(ABC):
    """Data read block by block; ``RowMoments`` for ICA; ``passes`` counts readings of all data."""

    def __init__(self, shape: tuple[int, int], seed: int, memory: int):
        self.n_rows, self.n_features = shape
        self.passes, self._seed, self._memory = 0, seed, memory

    @abstractmethod
    def _map(self, task: Callable, *arguments: Any) -> Iterator[Any]:
        """Results of ``task(rows, first, *arguments)`` of every block, in their order."""

    @abstractmethod
    def _reduce(self, merge: Callable, task: Callable, *arguments: Any) -> Any:
        """The same, merged in pairs."""

    def mean_and_covariance(self) -> tuple[Float[Tensor, "1 observed"], Float[Tensor, "1 observed observed"]]:
        """Mean and covariance (divisor n) in one pass and float64; rows that are not finite are named."""
        self.passes += 1
        found = self._reduce(merged, summary)
        _finite(found.bad, found.first_bad)
        self._covariance = torch.from_numpy(found.scatter / found.count)
        return torch.from_numpy(found.mean)[None], self._covariance[None]

    def prepare(self, mean: Float[Tensor, "*k observed"], whitening: Float[Tensor, "*k component observed"]) -> None:
        """Remember what makes rows white: ``(x − mean) whiteningᵀ`` with the mean that was found."""
        forth = whitening.double().reshape(-1, self.n_features)
        self._second = forth @ self._covariance @ forth.T
        single = np.linalg.cond(forth.numpy()) < EVEN
        self._white = Whitener(mean.double().reshape(-1).numpy(), (forth.float() if single else forth).numpy())
        most = self._memory // (4 * len(forth))
        asked = [rows for rows in stages(self.n_rows, len(forth)) if rows is not None and rows <= most]
        self._capacity = self.n_rows if self.n_rows <= most else max(asked, default=0)
        self._table: Tensor | None = None

    def moments(self, W: Rotations, contrast: ContrastFunction, rows: int | None = None) -> tuple[Rotations, Tensor]:
        """``E[g(y) whiteᵀ]`` and ``E[g'(y)]`` over ``rows`` rows (``None``: all), in the precision of ``W``."""
        product, slope = self._means(partial(moment_sums, W=W.detach().float(), contrast=contrast), rows)
        return product.to(W), slope.to(W)

    def excess(self, rows: int) -> Float[Tensor, "1 component component"]:
        """``E[white whiteᵀ]`` of so many rows less that of all rows, which needs no pass."""
        if rows > self._capacity:
            return torch.zeros_like(self._second)[None]
        return self._means(lambda white: (white.T @ white,), rows)[0][None] - self._second

    def value(self, W: Rotations, contrast: ContrastFunction) -> Float[Tensor, "model component"]:
        """``E[G(y)]`` over all rows, in float64."""
        return self._means(partial(value_sums, W=W.detach().float(), contrast=contrast), None)[0]

    def _means(self, question: Callable, rows: int | None) -> tuple[Tensor, ...]:
        """Means over the table where it suffices, over all the data otherwise."""
        wanted = self.n_rows if rows is None else min(checks.count(rows, "rows"), self.n_rows)
        if wanted <= self._capacity:
            white = self._gathered()
            sums = _sums((white[piece] for piece in _pieces(wanted, white)), question)
        else:
            wanted, self.passes = self.n_rows, self.passes + 1
            sums = self._reduce(added, block_sums, self._white, question)
        return tuple(torch.from_numpy(part / wanted) for part in sums)

    def _gathered(self) -> Tensor:
        """The table of white rows in its fixed random order, drawn from the data at the first call."""
        if self._table is None:
            self.passes += 1
            table = np.empty((self._capacity, len(self._white.whitening)), np.float32)
            order = seeds.numpy_generator(self._seed, "order of a stream").permutation(self._capacity)
            filled = 0
            for part in self._map(drawn_rows, self._white, self._capacity / self.n_rows, self._seed):
                table[order[filled : filled + len(part)]] = part
                filled += len(part)
            self._table = torch.from_numpy(table)
        return self._table


class FileStream(Stream):
    """A memory-mapped array, or an ``.npy`` file that is opened anew for every block so that none stays in memory."""

    def __init__(self, source: Any, seed: int = 0, *, memory: int = TABLE_BYTES):
        super().__init__(_shape(_opened(source)), seed, memory)
        self._source = source

    def _map(self, task: Callable, *arguments: Any) -> Iterator[Any]:
        return (task(rows, first, *arguments) for first, rows in _file_blocks(self._source))

    def _reduce(self, merge: Callable, task: Callable, *arguments: Any) -> Any:
        return reduce(merge, self._map(task, *arguments))


class DaskStream(Stream):
    """A Dask array in row chunks; every pass is one graph, run by whichever Dask scheduler is in force."""

    def __init__(self, source: Any, seed: int = 0, *, memory: int = TABLE_BYTES):
        super().__init__(_shape(source), seed, memory)
        source = source.rechunk({0: "auto", 1: -1}) if source.numblocks[1] > 1 else source
        firsts = np.cumsum((0, *source.chunks[0])).tolist()
        blocks = source.to_delayed(optimize_graph=True).ravel()
        self._blocks = [(b, i) for b, i, j in zip(blocks, firsts, firsts[1:], strict=False) if j > i]

    def _tasks(self, task: Callable, *arguments: Any) -> list[Any]:
        from dask.delayed import delayed

        shared = delayed(arguments, pure=False, traverse=False)  # one node of the graph, sent once to every worker
        return [delayed(_alone, pure=False)(task, block, first, shared) for block, first in self._blocks]

    def _map(self, task: Callable, *arguments: Any) -> Iterator[Any]:
        results = _computed(self._tasks(task, *arguments))
        while results:
            yield results.pop(0)

    def _reduce(self, merge: Callable, task: Callable, *arguments: Any) -> Any:
        from dask.delayed import delayed

        layer = self._tasks(task, *arguments)
        while len(layer) > 1:
            layer = [delayed(reduce, pure=False)(merge, layer[part]) for part in stretches(len(layer), 1, FAN_IN)]
        return _computed(layer)[0]


def _alone(task: Callable, rows: Any, first: int, arguments: tuple) -> Any:
    """A task on a worker, on one thread of torch: workers are many already."""
    torch.set_num_threads(1)
    return task(np.asarray(rows), first, *arguments)


def _computed(tasks: list[Any]) -> list[Any]:
    import dask

    with threads.for_work(0):  # workers may be threads of this process; its own setting comes back
        return list(dask.compute(*tasks))


def is_stream(x: Any) -> bool:
    """Whether ICA should read ``x`` block by block: a memory map, the path of an ``.npy`` file or a Dask array.

    >>> is_stream("rows.npy"), is_stream(np.ones((2, 2)))
    (True, False)
    """
    return isinstance(x, np.memmap) or _is_dask(x) or (isinstance(x, str | Path) and Path(x).suffix == ".npy")


def stream(source: Any, seed: int = 0, *, memory: int = TABLE_BYTES) -> Stream:
    """The stream of a memory map, the path of an ``.npy`` file, or a Dask array.

    ``memory`` is the number of bytes of white rows that are kept to answer small requests.
    """
    must = "A stream must be a memory map, the path of an .npy file or a Dask array."
    checks.require(is_stream(source), must, f"{source!r:.60}")
    return (DaskStream if _is_dask(source) else FileStream)(source, seed, memory=memory)


def project(source: Any, mean: Any, components: Any, out: str | Path | None = None) -> Any:
    """``(x − mean) componentsᵀ`` of a stream; float32 stays float32, everything else becomes float64.

    A Dask array gives a lazy Dask array. A file gives an array in memory, or with ``out`` a memory map of that new
    ``.npy`` file, which appears under its name once it is complete.
    """
    mean, components = np.asarray(mean, dtype=np.float64), np.asarray(components, dtype=np.float64)
    x: Any = source if _is_dask(source) else _opened(source)
    matches = x.ndim == 2 and x.shape[1] == len(mean)
    checks.require(matches, f"x must have two axes and {len(mean)} columns.", f"shape {x.shape}")
    if _is_dask(source):
        checks.require(out is None, "out must be left out for a Dask array, which stays lazy.", repr(str(out)))
        x, chunks = x.rechunk({1: -1}), (x.chunks[0], (len(components),))
        return x.map_blocks(projected, mean, components, chunks=chunks, meta=np.empty((0, 0), _kind(x.dtype)))
    shape = (len(x), len(components))
    if out is None:
        return _filled(np.empty(shape, _kind(x.dtype)), source, mean, components)
    return _written(Path(out), shape, source, mean, components)


def projected(rows: np.ndarray, mean: np.ndarray, components: np.ndarray) -> np.ndarray:
    """One block's ``(x − mean) componentsᵀ``, worked out in float64.

    >>> projected(np.array([[3.0, 1.0]]), np.array([1.0, 1.0]), np.array([[2.0, 5.0]]))
    array([[4.]])
    """
    result = np.empty((len(rows), len(components)), _kind(rows.dtype))
    for piece in _pieces(len(rows), rows):
        result[piece] = np.subtract(rows[piece], mean, dtype=np.float64) @ components.T
    return result


def _filled(result: np.ndarray, source: Any, mean: np.ndarray, components: np.ndarray) -> np.ndarray:
    for first, rows in _file_blocks(source):
        part = projected(rows, mean, components)
        bad = np.flatnonzero(~np.isfinite(part).all(axis=1))
        _finite(len(bad), first + int(bad[0]) if len(bad) else 0)
        result[first : first + len(part)] = part
    return result


def _written(out: Path, shape: tuple[int, int], source: Any, mean: np.ndarray, components: np.ndarray) -> np.ndarray:
    fine = out.suffix == ".npy" and out.parent.is_dir() and not out.exists()
    checks.require(fine, "out must be a new .npy file in a folder that exists.", repr(str(out)))
    partial_file = out.with_name(f"{out.name}.partial")
    try:
        result = np.lib.format.open_memmap(partial_file, mode="w+", dtype=_kind(_opened(source).dtype), shape=shape)
        _filled(result, source, mean, components)
        partial_file.replace(out)
    finally:
        partial_file.unlink(missing_ok=True)
    return np.load(out, mmap_mode="r", allow_pickle=False)


def _opened(source: Any) -> np.ndarray:
    """The memory map of a file, or the one that was given."""
    if not isinstance(source, str | Path):
        return source
    checks.require(Path(source).is_file(), "The file of a stream must exist.", repr(str(source)))
    try:
        return np.load(source, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise checks.InputError(f"A stream must be an .npy file of numbers. Got {str(source)!r}.") from error


def _file_blocks(source: Any) -> Iterator[tuple[int, np.ndarray]]:
    """Row blocks of about ``BLOCK_BYTES`` with the numbers of their first rows."""
    size, width = len(_opened(source)), _opened(source)[0].nbytes
    return ((b.start, _opened(source)[b]) for b in stretches(size, width, BLOCK_BYTES))


def _shape(x: Any) -> tuple[int, int]:
    """Rows and columns of a table of real numbers; anything else is refused."""
    checks.require(x.ndim == 2, "x must have two axes, (batch, dim).", f"shape {x.shape}")
    known = "A Dask array must know the sizes of its chunks; call x.compute_chunk_sizes() first."
    checks.require(not any(np.isnan(size) for size in x.shape), known, f"shape {x.shape}")
    checks.require(x.dtype.kind in "fiub", "x must hold real numbers.", f"dtype {x.dtype}")
    checks.require(x.shape[0] > 1 and x.shape[1] > 0, "x must have at least 2 rows and a column.", f"shape {x.shape}")
    return int(x.shape[0]), int(x.shape[1])


def _finite(bad: int, first: int) -> None:
    checks.require(bad == 0, "x must be finite.", f"NaN or inf in {bad} of its rows, the first of them row {first}")


def _kind(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _is_dask(x: Any) -> bool:
    return type(x).__module__.startswith("dask.array")
