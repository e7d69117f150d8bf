# SPDX-License-Identifier: Apache-2.0
"""Keras that computes with PyTorch: N ranks of B samples against one rank with all N * B."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

os.environ["KERAS_BACKEND"] = "torch"  # before Keras is imported

import keras
import numpy as np
import torch
from keras_oracle import STEPS, Case, data, dense, embedding, fit, values, words

import hvd
import hvd.keras as hk
from hvd import objects
from hvd.keras import backends, elastic

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


class OwnGpu(unittest.TestCase):
    def test_is_the_current_device(self) -> None:
        hk.use_own_gpu()  # there is none
        with mock.patch.multiple(
            torch.cuda, is_available=lambda: True, device_count=lambda: 4, set_device=mock.DEFAULT
        ) as changed:
            hk.use_own_gpu()
        changed["set_device"].assert_called_once_with(hk.local_rank())


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
        with self.assertRaisesRegex(hvd.UnsupportedError, "not a choice for an optimizer of Keras"):
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
