# SPDX-License-Identifier: Apache-2.0
"""Keras that computes with PyTorch: N ranks of B samples against one rank with all N * B."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

os.environ["KERAS_BACKEND"] = "torch"  # before Keras is imported

import keras
import numpy as np
import torch

import hvd
import hvd.keras as hk
from hvd import objects
from hvd.keras import backends, elastic

STEPS, BATCH, WORDS = 4, 3, 9
SGD, Adam = keras.optimizers.SGD, keras.optimizers.Adam
PLAIN = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras, sys
model = keras.models.load_model(sys.argv[1])
print("LOADED", type(model.optimizer).__name__, int(model.optimizer.iterations.value))
assert not any(name.split(".")[0] == "hvd" for name in sys.modules)
"""


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    hk.init()


def tearDownModule() -> None:  # noqa: N802
    hk.shutdown()


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets: [steps, ranks, samples, columns]."""
    inputs = np.random.default_rng(seed).normal(size=(STEPS, hk.size(), BATCH, 4))
    return inputs.astype("float32"), np.tanh(inputs[..., :2]).astype("float32")


def words() -> tuple[np.ndarray, np.ndarray]:
    shape = (STEPS, hk.size(), BATCH, 2)
    inputs = np.random.default_rng(2).integers(0, WORDS, shape)
    return inputs, np.sin(inputs).astype("float32")


def dense() -> Any:
    keras.utils.set_random_seed(11)
    hidden = keras.layers.Dense(5, "tanh")
    return keras.Sequential([keras.Input([4]), hidden, keras.layers.Dense(2)])


def embedding() -> Any:
    keras.utils.set_random_seed(12)
    layers = [keras.layers.Embedding(WORDS, 2), keras.layers.Flatten(), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input([2], dtype="int64"), *layers])


def fit(model: Any, given: Any, rank: int | None = None, **options: Any) -> None:
    """Trains with the data of a rank, or of all."""
    parts = [one if rank is None else one[:, rank : rank + 1] for one in given]
    inputs, targets = (one.reshape(-1, one.shape[-1]) for one in parts)
    batch = BATCH * parts[0].shape[1]
    model.fit(inputs, targets, batch_size=batch, shuffle=False, verbose=0, **options)


def values(variables: list[Any]) -> list[np.ndarray]:
    return [np.array(keras.ops.convert_to_numpy(one)) for one in variables]


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
    ) -> Any:
        """This rank's model, when it has learned what one rank does with the plain optimizer."""
        given = given or data()
        whole = build()
        whole.compile(plain(), "mse")
        fit(whole, given)
        mine = build()
        mine.compile(wrap() if wrap else hk.DistributedOptimizer(plain()), "mse")
        fit(mine, given, self.rank)
        self.near(values(mine.weights), values(whole.weights), tolerance)
        self.assert_equal_on_ranks(values(mine.weights))
        return mine


class Learning(Case):
    def test_fit(self) -> None:
        self.learns(lambda: SGD(0.5, momentum=0.9, clipnorm=0.05))
        self.learns(lambda: Adam(0.05, use_ema=True))
        self.learns(lambda: SGD(0.5), build=embedding, given=words())

    def test_accumulated_steps_and_a_schedule(self) -> None:
        self.learns(lambda: Adam(0.1, global_clipnorm=0.02, gradient_accumulation_steps=2))
        schedule = keras.optimizers.schedules.ExponentialDecay(0.8, 1, 0.5)
        model = self.learns(lambda: SGD(schedule))
        self.assertAlmostEqual(float(model.optimizer.learning_rate), 0.8 * 0.5**STEPS, places=6)

    def test_compressed_and_summed(self) -> None:
        def halved() -> Any:
            return hk.DistributedOptimizer(SGD(0.5), compression=hk.Compression.fp16)

        self.learns(lambda: SGD(0.5), halved, tolerance=5e-3)
        self.learns(
            lambda: SGD(0.5), lambda: hk.DistributedOptimizer(SGD(0.5 / self.size), op=hk.Sum)
        )

    def test_a_loop_of_ones_own(self) -> None:
        given = data()
        whole = dense()
        whole.compile(SGD(0.5), "mse")
        fit(whole, given)
        mine, optimizer = dense(), hk.DistributedOptimizer(SGD(0.5))
        for inputs, targets in zip(given[0][:, self.rank], given[1][:, self.rank]):
            mine.zero_grad()
            loss = keras.ops.mean((mine(torch.tensor(inputs)) - torch.tensor(targets)) ** 2)
            loss.backward()
            variables = mine.trainable_variables
            with torch.no_grad():
                optimizer.apply([one.value.grad for one in variables], variables)
        self.near(values(mine.weights), values(whole.weights))

    def test_layers_that_stay(self) -> None:
        model = dense()
        optimizer = hk.PartialDistributedOptimizer(SGD(0.5), local_layers=model.layers[0])
        model.compile(optimizer, "mse")
        fit(model, data(), self.rank)
        kept, shared = values(model.layers[0].weights), values(model.layers[1].weights)
        self.assert_equal_on_ranks(shared[1:])  # the bias; what comes before it differs
        others = objects.allgather_object(kept[0].tolist())
        self.assertEqual(len({str(one) for one in others}), self.size)

    def test_all_ranks_skip_a_step_that_is_not_finite(self) -> None:
        given = data()
        given[0][1, self.size - 1] = np.inf
        for wrap in (
            lambda: keras.optimizers.LossScaleOptimizer(hk.DistributedOptimizer(SGD(0.1))),
            lambda: hk.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(SGD(0.1))),
        ):
            model = dense()
            model.compile(wrap(), "mse")
            fit(model, given, self.rank)
            self.assertEqual(int(model.optimizer.inner_optimizer.iterations), STEPS - 1)
            self.assertEqual(float(model.optimizer.dynamic_scale), 2.0**14)
            self.assertTrue(all(np.isfinite(one).all() for one in values(model.weights)))
            self.assert_equal_on_ranks(values(model.weights))


class Files(Case):
    def test_training_goes_on_after_loading(self) -> None:
        given = data()
        without, with_file = dense(), dense()
        for model in (without, with_file):
            model.compile(hk.DistributedOptimizer(Adam(0.05)), "mse")
            fit(model, given, self.rank)
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.keras"
            with_file.save(path)
            loaded = hk.load_model(path)
            clean = {**os.environ, "PYTHONPATH": ""}
            command = [sys.executable, "-c", PLAIN, path]
            ended = subprocess.run(command, env=clean, capture_output=True, text=True)
        for model in (without, loaded):
            fit(model, given, self.rank)
        self.near(values(loaded.weights), values(without.weights), 1e-6)
        self.assert_equal_on_ranks(values(loaded.weights))
        # Where there is no hvd, it has the plain optimizer.
        self.assertIn(f"LOADED Adam {STEPS}", ended.stdout, ended.stderr)


class Limits(Case):
    def test_ranks_that_disagree(self) -> None:
        def train(width: int) -> None:
            model = keras.Sequential([keras.Input([2]), keras.layers.Dense(width)])
            model.compile(hk.DistributedOptimizer(SGD(0.1)), "mse")
            model.fit(np.ones((4, 2)), np.ones((4, width)), verbose=0)

        with self.assertRaisesRegex(hvd.MismatchError, "gradient.*ranks disagree"):
            train(3 + self.rank)
        train(3)

    def test_what_has_no_meaning_here_is_refused(self) -> None:
        with self.assertRaisesRegex(hvd.UnsupportedError, "BroadcastGlobalVariablesCallback"):
            hk.broadcast_global_variables(0)
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "hvd.torch.DistributedOptimizer"):
            hk.DistributedOptimizer(torch.optim.SGD([torch.ones(1)], 0.1))
        model = dense()
        top_k = hk.Compression.top_k(0.5)
        model.compile(hk.DistributedOptimizer(SGD(0.1), compression=top_k), "mse")
        with self.assertRaisesRegex(hvd.UnsupportedError, "no choice for an optimizer of Keras"):
            fit(model, data(), self.rank)

    def test_other_backends_are_a_sentence(self) -> None:
        for name in ("jax", "numpy", "openvino"):
            model, callback = dense(), hk.callbacks.BroadcastGlobalVariablesCallback(0)
            model.compile(SGD(0.1), "mse")
            callback.set_model(model)
            with mock.patch.object(keras.backend, "backend", return_value=name):
                for call in (
                    backends.chosen,
                    lambda: hk.DistributedOptimizer(SGD(0.1)),
                    callback.on_train_begin,
                    lambda: elastic.KerasState(dense()).sync(),
                ):
                    with self.assertRaisesRegex(hvd.UnsupportedError, f"{name} .*KERAS_BACKEND"):
                        call()


if __name__ == "__main__":
    unittest.main(verbosity=2)
