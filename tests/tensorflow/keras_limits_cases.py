# SPDX-License-Identifier: Apache-2.0
"""Where training with Keras meets its surroundings: new jobs, files, clones, mixed precision, broken broadcasts."""

from __future__ import annotations

import unittest
import unittest.mock
from typing import Any

import keras
import numpy as np

import hvd
import hvd.keras as hk
import hvd.tensorflow.keras
from hvd.keras import backends, callbacks

SGD = keras.optimizers.SGD


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    hk.init()


def tearDownModule() -> None:  # noqa: N802
    hk.shutdown()


def network(optimizer: Any, **options: Any) -> Any:
    """A linear model with weights of 0."""
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input([1]), dense])
    model.compile(optimizer, "mse", **options)
    return model


def ones(model: Any) -> float:
    """What the weight becomes in a step whose gradient is -2 on each rank."""
    model.train_on_batch(np.ones((4, 1)), np.ones((4, 1)))
    return weight(model)


def weight(model: Any) -> float:
    return float(keras.ops.convert_to_numpy(model.weights[0])[0, 0])


class Clones(unittest.TestCase):
    def test_the_class_of_an_optimizer_makes_plain_ones(self) -> None:
        optimizer = hk.DistributedOptimizer(SGD(0.25, momentum=0.5))
        kind = type(optimizer)
        for made in (kind.from_config(optimizer.get_config()), kind(0.25, momentum=0.5)):
            self.assertIs(type(made), SGD)
            self.assertEqual(made.momentum, 0.5)
            self.assertEqual(ones(network(made)), 0.5)
            hk.DistributedOptimizer(made)
        inner = keras.optimizers.LossScaleOptimizer(SGD(0.25))
        scaled = hk.DistributedOptimizer(inner)
        made = type(scaled).from_config(scaled.get_config())
        self.assertIs(type(made), keras.optimizers.LossScaleOptimizer)


class Compilation(unittest.TestCase):
    def test_xla_is_off_under_mixed_precision(self) -> None:
        for policy in ("float32", "mixed_float16"):
            for wrap, expected in ((hk.DistributedOptimizer, False), (lambda one: one, True)):
                dense = keras.layers.Dense(1, dtype=policy)
                model = keras.Sequential([keras.Input([1]), dense])
                model.dtype_policy = keras.DTypePolicy(policy)  # by which compile() chooses
                model.compile(wrap(SGD(0.1)), "mse", jit_compile=True)
                self.assertEqual(hasattr(model.optimizer, "inner_optimizer"), "16" in policy)
                self.assertIs(model.jit_compile, expected, policy)


class Checkpoints(unittest.TestCase):
    def test_arguments_are_in_the_order_of_each_package_of_horovod(self) -> None:
        best = callbacks.BestModelCheckpoint("val_loss", 0, "min", "epoch", True)
        self.assertEqual((best.mode, best.save_weights_only), ("min", True))
        best = hvd.tensorflow.keras.callbacks.BestModelCheckpoint("val_loss", 0, True, "max")
        self.assertEqual((best.mode, best.save_weights_only), ("max", True))
        self.assertIsInstance(best, callbacks.BestModelCheckpoint)
        with self.assertRaisesRegex(hvd.errors.InvalidArgumentError, "mode is True.*its name"):
            callbacks.BestModelCheckpoint("val_loss", 0, True)


class Broadcasts(unittest.TestCase):
    def setUp(self) -> None:
        self.model = network(hk.DistributedOptimizer(SGD(0.5)))
        self.callback = callbacks.BroadcastGlobalVariablesCallback(0)
        self.callback.set_model(self.model)

    def begin(self, value: float) -> float:
        """The weight at the beginning of a fit whose ranks have it times their number."""
        self.model.weights[0].assign([[value * hvd.rank()]])
        self.callback.on_train_begin()
        return weight(self.model)

    def test_one_that_broke_on_one_rank_comes_again_on_all(self) -> None:
        backend = backends.chosen()
        whole = backend.broadcast

        def broken(*given: Any) -> None:
            whole(*given)
            if hvd.rank() == hvd.size() - 1:
                raise hvd.errors.PeerLostError("broken off")

        with unittest.mock.patch.object(backend, "broadcast", broken):
            try:
                self.begin(1.0)
            except hvd.errors.PeerLostError:
                self.assertEqual(hvd.rank(), hvd.size() - 1)
        self.assertEqual(self.begin(2.0), 0.0)
        self.assertEqual(self.begin(2.0), 2.0 * hvd.rank())  # once is enough

    def test_it_comes_again_in_a_new_job(self) -> None:
        self.assertEqual(self.begin(1.0), 0.0)
        hk.shutdown()
        hk.init()
        self.assertEqual(self.begin(2.0), 0.0)


class Outside(unittest.TestCase):
    def test_a_step_of_a_rank_outside_the_set_is_local(self) -> None:
        members = list(range(hvd.size() - 1))
        group = hk.add_process_set(members)
        for scales in (True, False):
            optimizer = hk.DistributedOptimizer(
                SGD(0.25), process_set=group, scale_local_gradients=scales
            )
            model = network(optimizer)
            optimizer.register_local_var(model.weights[0])
            share = len(members) if scales and hvd.rank() in members else 1
            self.assertEqual(ones(model), 0.5 / share)
        hk.remove_process_set(group)


class Names(unittest.TestCase):
    """Of the operations of optimizers, which graphs keep."""

    def test_they_stay_in_a_new_job(self) -> None:
        made = [network(hk.DistributedOptimizer(SGD(0.25), "stays")) for _ in range(2)]
        for model in made:
            self.assertEqual(ones(model), 0.5)
        hk.shutdown()
        hk.init()
        # In the other order; and then one rank alone traces the second anew.
        made.append(network(hk.DistributedOptimizer(SGD(0.25), "stays")))
        names = [model.optimizer._hvd.prefix() for model in reversed(made)]
        self.assertEqual(names, ["stays.2", "stays.1", "stays"])
        if hvd.rank() == 0:
            made[1].make_train_function(force=True)
        self.assertEqual([ones(made[at]) for at in (1, 0, 2)], [0.75, 0.75, 0.5])

    def test_those_of_optimizers_that_are_gone_are_free_in_a_new_job(self) -> None:
        def train() -> str:
            model = network(hk.DistributedOptimizer(SGD(0.5), "comes"))
            ones(model)
            return model.optimizer._hvd.prefix()

        self.assertEqual([train(), train()], ["comes", "comes.1"])  # whenever rubbish is collected
        hk.shutdown()
        hk.init()
        # As on a rank that is new in this job.
        self.assertEqual(train(), "comes")


if __name__ == "__main__":
    unittest.main(verbosity=2)
