# SPDX-License-Identifier: Apache-2.0
"""What N ranks of B samples must learn with Keras 2: what one rank learns with all N * B."""

from __future__ import annotations

import tempfile
import unittest
from typing import Any
from unittest import mock

import numpy as np
import tf_keras as keras

import hvd
import hvd.keras as hk
from hvd import objects, replicas

STEPS, BATCH = 4, 3
NEW, OLD = keras.optimizers, keras.optimizers.legacy
SCALES = keras.mixed_precision.LossScaleOptimizer


def data() -> list[np.ndarray]:
    """Inputs and targets: [steps, ranks, samples, columns]."""
    inputs = np.random.default_rng(0).normal(size=(STEPS, hk.size(), BATCH, 4))
    return [inputs.astype("float32"), np.tanh(inputs[..., :2]).astype("float32")]


def dense(dtype: Any = None) -> Any:
    keras.utils.set_random_seed(11)
    hidden = keras.layers.Dense(5, "tanh", dtype=dtype)
    model = keras.Sequential([keras.Input([4]), hidden, keras.layers.Dense(2, dtype=dtype)])
    if dtype is not None:
        model._set_dtype_policy(keras.mixed_precision.Policy(dtype))
    return model


def embedding() -> Any:
    keras.utils.set_random_seed(12)
    layers = [keras.layers.Embedding(9, 2), keras.layers.Flatten(), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input([2], dtype="int64"), *layers])


def words() -> list[np.ndarray]:
    inputs = np.random.default_rng(2).integers(0, 9, (STEPS, hk.size(), BATCH, 2))
    return [inputs, np.sin(inputs).astype("float32")]


def fit(model: Any, given: Any, rank: int | None = None, **options: Any) -> Any:
    """Trains with the data of a rank, or of all."""
    parts = [one if rank is None else one[:, rank : rank + 1] for one in given]
    inputs, targets = (one.reshape(-1, one.shape[-1]) for one in parts)
    options.setdefault("batch_size", BATCH * parts[0].shape[1])
    model.fit(inputs, targets, shuffle=False, verbose=0, **options)
    return model


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.rank, self.size = hk.rank(), hk.size()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def near(self, got: Any, expected: Any, tolerance: float = 1e-5) -> None:
        self.assertEqual(len(got), len(expected))
        for one, other in zip(got, expected):
            np.testing.assert_allclose(one, other, tolerance, tolerance)

    def assert_equal_on_ranks(self, variables: Any) -> None:
        every = objects.allgather_object([np.asarray(one).tolist() for one in variables])
        self.assertEqual(every, every[:1] * self.size)

    def learns(self, plain: Any, wrap: Any = None, build: Any = dense, **options: Any) -> Any:
        """This rank's model, when it has learned what one rank does with the plain optimizer."""
        tolerance = options.pop("tolerance", 1e-5)
        given = words() if build is embedding else data()
        whole = build()
        whole.compile(plain(), "mse", run_eagerly=True)
        fit(whole, given)
        mine = build()
        mine.compile(wrap() if wrap else hk.DistributedOptimizer(plain()), "mse", **options)
        before = hvd.statistics().requests
        with mock.patch("hvd.replicas.start", wraps=replicas.start) as compared:
            fit(mine, given, self.rank)
        self.exchanged = hvd.statistics().requests - before - compared.call_count
        self.near(mine.get_weights(), whole.get_weights(), tolerance)
        self.assert_equal_on_ranks(mine.get_weights())
        return mine
