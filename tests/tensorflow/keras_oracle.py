# SPDX-License-Identifier: Apache-2.0
"""What N ranks of B samples must learn: what one rank learns with all N * B, on any backend of Keras."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import keras
import numpy as np

import hvd
import hvd.keras as hk
from hvd import objects, replicas

STEPS, BATCH, WORDS = 4, 3, 9


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets: [steps, ranks, samples, columns]."""
    inputs = np.random.default_rng(seed).normal(size=(STEPS, hk.size(), BATCH, 4))
    return inputs.astype("float32"), np.tanh(inputs[..., :2]).astype("float32")


def words() -> tuple[np.ndarray, np.ndarray]:
    shape = (STEPS, hk.size(), BATCH, 2)
    inputs = np.random.default_rng(2).integers(0, WORDS, shape)
    return inputs, np.sin(inputs).astype("float32")


def dense(dtype: Any = None) -> Any:
    keras.utils.set_random_seed(11)
    hidden = keras.layers.Dense(5, "tanh", dtype=dtype)
    model = keras.Sequential([keras.Input([4]), hidden, keras.layers.Dense(2, dtype=dtype)])
    if dtype is not None:
        model.dtype_policy = keras.DTypePolicy(dtype)  # by which compile() chooses to scale
    return model


def embedding() -> Any:
    keras.utils.set_random_seed(12)
    layers = [keras.layers.Embedding(WORDS, 2), keras.layers.Flatten(), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input([2], dtype="int64"), *layers])


def fit(model: Any, given: Any, rank: int | None = None, batch: int = 0, **options: Any) -> Any:
    """Trains with the data of a rank, or of all."""
    parts = [one if rank is None else one[:, rank : rank + 1] for one in given]
    inputs, targets = (one.reshape(-1, one.shape[-1]) for one in parts)
    batch = batch or BATCH * parts[0].shape[1]
    model.fit(inputs, targets, batch_size=batch, shuffle=False, verbose=0, **options)
    return model


def values(variables: list[Any]) -> list[np.ndarray]:
    return [np.array(keras.ops.convert_to_numpy(one)) for one in variables]


def comparisons() -> Any:
    """Counts the operations that compare replicas."""
    return mock.patch("hvd.replicas.start", wraps=replicas.start)


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.rank, self.size = hk.rank(), hk.size()

    def near(self, got: Any, expected: Any, tolerance: float = 1e-5) -> None:
        self.assertEqual(len(got), len(expected))
        for one, other in zip(got, expected):
            np.testing.assert_allclose(one, other, tolerance, tolerance)

    def assert_equal_on_ranks(self, mine: list[np.ndarray]) -> None:
        every = objects.allgather_object([one.tolist() for one in mine])
        self.assertEqual(every, every[:1] * self.size)

    def learns(
        self,
        plain: Callable[[], Any],
        wrap: Callable[[], Any] | None = None,
        build: Callable[[], Any] = dense,
        given: Any = None,
        tolerance: float = 1e-5,
        batch: int = 0,
        **options: Any,
    ) -> Any:
        """This rank's model, when it has learned what one rank does with the plain optimizer."""
        given = given or data()
        whole = build()
        whole.compile(plain(), "mse", run_eagerly=True)
        fit(whole, given, batch=batch)
        mine = build()
        mine.compile(wrap() if wrap else hk.DistributedOptimizer(plain()), "mse", **options)
        before = hvd.statistics().requests
        with comparisons() as compared:
            fit(mine, given, self.rank)
        self.exchanged = hvd.statistics().requests - before - compared.call_count
        self.near(values(mine.weights), values(whole.weights), tolerance)
        self.assert_equal_on_ranks(values(mine.weights))
        return mine
