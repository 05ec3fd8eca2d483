"""Transformer: scikit-learn's contract, with the columns of ``fit`` remembered and results in the kind of the input."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import torch
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data
from torch import Tensor

from noumena import checks

Verb = TypeVar("Verb", bound=Callable[..., Any])


def transactional(fit: Verb) -> Verb:
    """A fit that leaves the estimator as it was where it is refused or fails, whatever kind of output is asked for."""

    @wraps(fit)
    def fitted(estimator: Any, *args: Any, **options: Any) -> Any:
        """The fit, or the estimator of before."""
        state = vars(estimator)
        before = dict(state)
        try:
            with config_context(transform_output="default"):
                return fit(estimator, *args, **options)
        except BaseException:
            state.clear()
            state.update(before)
            raise

    return cast("Verb", fitted)


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of all estimators with ``transform``."""

    __no_type_check__ = True  # parameters are checked by ``fit``, as scikit-learn wants, never by ``__init__``

    def _compare_columns(self, x: Any, width: int, *, reset: bool) -> None:
        """Learn (or compare with what was learned) the number and names of columns, in scikit-learn's words."""
        checks.columns(x, "x")
        frame: Any = x if hasattr(x, "columns") else np.empty((0, width))
        validate_data(self, X=frame, reset=reset, skip_check_array=True)


def as_given(given: Any, array: np.ndarray, result: Any) -> Any:
    """The result in the kind and precision of what was given, of which ``array`` is the table.

    >>> as_given(torch.ones(1, 2), np.ones((1, 2), dtype=np.float32), np.array([[0.5]]))
    tensor([[0.5000]])
    """
    result = np.ascontiguousarray(result, dtype=array.dtype)
    return torch.as_tensor(result, device=given.device) if isinstance(given, Tensor) else result
