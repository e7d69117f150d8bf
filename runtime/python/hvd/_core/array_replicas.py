# SPDX-License-Identifier: Apache-2.0
"""Digests of NumPy arrays, and their comparison over ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hvd import replicas
from hvd._core.refusals import refused
from hvd.process_sets import ProcessSet, global_process_set
from hvd.replicas import Entry

NamedArrays = list[tuple[str, np.ndarray]]


def _digest(array: np.ndarray, seed: int = 0) -> int:
    flat = np.ascontiguousarray(array)
    return replicas.digest(flat.ctypes.data, flat.nbytes, seed)


def digest_of(arrays: Iterable[np.ndarray]) -> int:
    """One digest of all of them."""
    found = 0
    for array in arrays:
        found = _digest(array, found)
    return found


def entries_of(named: NamedArrays) -> list[Entry]:
    """The digest of each; one for all kinds of NaN."""
    found = []
    for name, array in named:
        missing = np.isnan(array) if _may_lack(array) else None
        if missing is not None and missing.any():
            array = np.where(missing, array.dtype.type(float("nan")), array)
        found.append((name, _digest(array, replicas.digest_text(str(list(array.shape))))))
    return found


def _may_lack(array: np.ndarray) -> bool:
    return array.dtype.kind in "fc" or array.dtype.name == "bfloat16"


def check_arrays(
    name: str | None, process_set: ProcessSet, named: NamedArrays, every: int | None = None
) -> None:
    """Compares arrays over ranks, all of which call it; with ``HVD_CHECK_REPLICAS=0``: nothing."""

    def mine() -> int:
        forms = replicas.digest_text(str([(key, *one.shape) for key, one in named]))
        return replicas.combined([forms, digest_of(one for _, one in named)])

    replicas.check_given(name, process_set, mine, lambda: entries_of(named), every)


def check_replicas(
    arrays: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> None:
    """Compares arrays over ranks, all of which call it; with ``HVD_CHECK_REPLICAS=0``: nothing.

    Parameters
    ----------
    arrays
        NumPy arrays, of any shapes and types but objects: a mapping from names, (name, array)
        pairs, or arrays alone.
    name
        What the names of its operations begin with; equal on all ranks.
    process_set
        The ranks that compare; on others nothing happens.

    Raises
    ------
    ReplicasDifferError
        On every rank: the arrays differ, in values, shapes or names. It names the first, and from 3
        ranks on the rank whose array is not that of the others.

    >>> check_replicas({"weights": np.ones(3)})  # on one rank: always equal
    """
    pairs = arrays.items() if isinstance(arrays, Mapping) else arrays
    named = [
        one if isinstance(one, tuple) else (str(place), one) for place, one in enumerate(pairs)
    ]
    made = [(f"'{key}'", np.asarray(one)) for key, one in named]
    for key, one in made:
        if one.dtype.hasobject:
            raise refused(f"check_replicas: {key} has objects: give arrays of numbers")
    check_arrays(name, process_set, made)
