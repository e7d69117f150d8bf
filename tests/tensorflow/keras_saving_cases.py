# SPDX-License-Identifier: Apache-2.0
"""Models of Keras in files, with hvd and without, and what its optimizers refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hvd
import hvd.keras as hk
import hvd.tensorflow as ht
from hvd import objects

# Loads a model where there is no hvd, and goes on training.
PLAIN = """
import sys
sys.path[:] = [one for one in sys.path if "runtime" not in one]
import keras, numpy
model = keras.models.load_model(sys.argv[1])
assert type(model.optimizer) is keras.optimizers.Adam, type(model.optimizer).__mro__
before = int(model.optimizer.iterations)
model.train_on_batch(numpy.ones((2, 3)), numpy.ones((2, 1)))
assert not [one for one in sys.modules if one.split(".")[0] == "hvd"]
print(before, int(model.optimizer.iterations))
"""


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")
    hk.init()


def tearDownModule() -> None:  # noqa: N802
    hk.shutdown()


@keras.saving.register_keras_serializable("tests")
class Registered(keras.optimizers.SGD):
    """An optimizer of a user."""


class Unregistered(keras.optimizers.Adam):
    """Another, of which Keras has not been told."""


def network(optimizer: Any, dtype: str = "float32") -> Any:
    keras.utils.set_random_seed(4)
    keras.config.set_dtype_policy(dtype)  # until the test ends
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    model.compile(optimizer, keras.losses.MeanSquaredError(), run_eagerly=True)
    return model


def train(model: Any, steps: int) -> Any:
    generator = np.random.default_rng(hk.rank())
    for _ in range(steps):
        inputs = generator.normal(size=(4, 3)).astype("float32")
        model.train_on_batch(inputs, inputs.sum(1, keepdims=True))
    return model


def values(variables: list[Any]) -> list[np.ndarray]:
    return [np.array(keras.ops.convert_to_numpy(one)) for one in variables]


def stored(path: str) -> Any:
    """What a file says of the optimizer."""
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("config.json"))["compile_config"]["optimizer"]


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(keras.config.set_dtype_policy, "float32")
        self.path = f"{folder.name}/model.keras"

    def assert_same(self, mine: Any, theirs: Any) -> None:
        for one, other in zip(mine, theirs):
            np.testing.assert_array_equal(one, other)
        self.assertEqual(len(mine), len(theirs))


class Saving(Case):
    def test_a_file_is_that_of_the_plain_optimizer(self) -> None:
        kinds: dict[str, tuple[Callable[[], Any], str]] = {
            "adam": (lambda: keras.optimizers.Adam(0.01, name="own", clipnorm=1.0), "float32"),
            "registered": (lambda: Registered(0.1, name="own"), "float32"),
            "scaled": (lambda: keras.optimizers.SGD(0.1, name="own"), "mixed_float16"),
        }
        for kind, (make, dtype) in kinds.items():
            with self.subTest(kind):
                network(make(), dtype).save(self.path)
                expected = stored(self.path)
                model = train(network(hk.DistributedOptimizer(make()), dtype), 2)
                model.save(self.path)
                self.assertEqual(stored(self.path), expected)
                plain = keras.models.load_model(self.path)
                self.assertIs(type(plain.optimizer), type(network(make(), dtype).optimizer))
                self.assert_same(
                    values(plain.optimizer.variables), values(model.optimizer.variables)
                )

    def test_a_process_without_hvd_loads_it(self) -> None:
        model = train(network(hk.DistributedOptimizer(keras.optimizers.Adam())), 3)
        if hk.rank() == 0:
            model.save(self.path)
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            command = [sys.executable, "-c", PLAIN, self.path]
            found = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=100
            )
            self.assertEqual(found.stdout.split(), ["3", "4"], found.stderr)

    def test_training_goes_on_as_if_there_was_no_file(self) -> None:
        kinds: dict[str, tuple[Callable[[], Any], str, dict[str, Any]]] = {
            "adam": (lambda: keras.optimizers.Adam(0.01), "float32", {}),
            "registered": (lambda: Registered(0.1, momentum=0.9), "float32", {}),
            "unregistered": (Unregistered, "float32", {"custom_optimizers": [Unregistered]}),
            "scaled": (lambda: keras.optimizers.SGD(0.1, momentum=0.9), "mixed_float16", {}),
        }
        for kind, (make, dtype, options) in kinds.items():
            for ending in ("keras", "h5") if kind in ("adam", "scaled") else ("keras",):
                with self.subTest(kind, ending=ending):
                    path = self.path.replace("keras", ending)
                    model = train(network(hk.DistributedOptimizer(make()), dtype), 2)
                    model.save(path)
                    again = hk.load_model(path, **options)
                    again.run_eagerly = True
                    self.assertIs(again.jit_compile, False)
                    state = [*model.weights, *model.optimizer.variables]
                    loaded = [*again.weights, *again.optimizer.variables]
                    self.assert_same(values(loaded), values(state))
                    train(model, 2)
                    train(again, 2)
                    self.assert_same(values(loaded), values(state))
                    every = objects.allgather_object([one.tolist() for one in values(loaded)])
                    self.assertEqual(every, every[:1] * hk.size())

    def test_models_that_are_not_compiled_and_old_optimizers(self) -> None:
        keras.Sequential([keras.Input([3]), keras.layers.Dense(1)]).save(self.path)
        self.assertIsNone(getattr(hk.load_model(self.path), "optimizer", None))
        with self.assertRaisesRegex(hvd.errors.UnsupportedError, "leave legacy_opts out"):
            hk.load_model(self.path, legacy_opts=True)

    def test_weights_and_clones(self) -> None:
        optimizer = hk.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5))
        self.assertEqual(type(optimizer).__name__, "SGD")
        self.assertIsInstance(optimizer, keras.optimizers.SGD)
        config = keras.optimizers.serialize(optimizer)
        self.assertEqual(config["module"], "keras.optimizers")
        clone = keras.optimizers.deserialize(config)
        self.assertIs(type(clone), keras.optimizers.SGD)
        self.assertEqual(clone.get_config(), optimizer.get_config())


class Refusals(unittest.TestCase):
    """A wrong argument is named with its value, and with what to do."""

    def refuses(self, pattern: str, act: Callable[[], Any]) -> None:
        with self.subTest(pattern), self.assertRaisesRegex(hvd.HvdError, pattern) as caught:
            act()
        if isinstance(caught.exception, hvd.errors.InvalidArgumentError):
            self.assertIn(f"rank {hk.rank()}", str(caught.exception))

    def test_optimizers(self) -> None:
        wrap, kinds = hk.DistributedOptimizer, keras.optimizers
        self.refuses("not 'sgd': as keras.optimizers.Adam", lambda: wrap("sgd"))
        legacy = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        self.refuses("goes to hvd.tensorflow.DistributedOptimizer", lambda: wrap(legacy))
        optimizer = wrap(kinds.SGD())
        self.refuses("SGD is distributed already: wrap once", lambda: wrap(optimizer))
        self.refuses("wrap once", lambda: wrap(kinds.LossScaleOptimizer(optimizer)))
        self.refuses("wrap once", lambda: ht.DistributedOptimizer(optimizer))
        accumulating = kinds.SGD(gradient_accumulation_steps=3)
        self.refuses(
            "gradient_accumulation_steps=3: give one of them",
            lambda: wrap(accumulating, backward_passes_per_step=2),
        )
        built = kinds.SGD()
        built.build([keras.Variable([1.0])])
        self.refuses(
            "make it with gradient_accumulation_steps=2",
            lambda: wrap(built, backward_passes_per_step=2),
        )

    def test_arguments(self) -> None:
        def wrap(**options: Any) -> Callable[[], Any]:
            return lambda: hk.DistributedOptimizer(keras.optimizers.SGD(), **options)

        variable = keras.Variable([1.0])
        self.refuses("takes hvd.Average or.*DistributedGradientTape", wrap(op=hk.Adasum))
        self.refuses("op is 'sum': give hvd.Average", wrap(op="sum"))
        self.refuses("compression is 'fp16': give one of", wrap(compression="fp16"))
        self.refuses("per_step is 0: it must be > 0", wrap(backward_passes_per_step=0))
        self.refuses("lists of keras.Variable", wrap(groups=[["kernel"]]))
        self.refuses("only appear once", wrap(groups=[[variable], [variable.value]]))
        self.refuses("factor=2.0 not supported", wrap(op=hk.Sum, gradient_predivide_factor=2.0))
        self.refuses(
            "local_layers holds 'dense'.*register_local_var",
            lambda: hk.PartialDistributedOptimizer(keras.optimizers.SGD(), local_layers=["dense"]),
        )

    def test_tensorflow_makes_the_same_of_them(self) -> None:
        optimizer = ht.DistributedOptimizer(keras.optimizers.Adam())
        self.assertIs(type(optimizer), type(hk.DistributedOptimizer(keras.optimizers.Adam())))


if __name__ == "__main__":
    unittest.main(verbosity=2)
